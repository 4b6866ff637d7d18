package train

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/nn"
)

// Open opens the training's data and pipeline, and loads the weights of a file, or the
// state of a snapshot, if it is to. It refuses what would only fail later.
func (t Training) Open(ctx context.Context) (l *Loop, err error) {
	source, err := t.Source()
	if err != nil {
		return nil, err
	}
	steps, err := t.steps(source)
	if err != nil {
		return nil, err
	}
	keeper, err := t.newKeeper(source)
	if err != nil {
		return nil, err
	}
	to := toEvaluate | toPredict
	if steps > 0 || t.RecomputeStatistics > 0 {
		to |= toTrain
	}
	if t.Processes != nil {
		if t.data, err = t.digest(source); err != nil {
			keeper.close()
			return nil, err
		}
		t.data += keeper.digest()
	}
	if l, err = t.open(ctx, to, nil); err != nil {
		keeper.close()
		return nil, err
	}
	l.Source, l.Steps, l.keeper = source, steps, keeper
	if l.together() {
		l.forget = context.AfterFunc(ctx, l.Trainer.AskToStop)
	}
	for _, prepare := range []func() error{l.prepareLast, l.prepareStatistics, l.prepareBest, l.load, l.loadPart, l.restore} {
		if err := prepare(); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// digest returns a digest of what a training reads: its files of data and of weights, how
// many mini-batches its data have, the first, the last of an epoch and the first of those
// held out.
func (t *Training) digest(s datasets.Source) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, datasets.Digest(s))
	for _, split := range []datasets.Split{datasets.Train, datasets.HeldOut} {
		n := s.Batches(split, t.Batch)
		fmt.Fprintln(h, n)
		if split == datasets.HeldOut && n == 0 {
			continue
		}
		for _, i := range slices.Compact([]int{0, max(n-1, 0)}) {
			b, err := s.Batch(split, i, t.Batch)
			if err != nil {
				return "", err
			}
			digestBatch(h, b)
		}
	}
	loaded, err := digestOf(cmp.Or(t.Load, t.LoadPart), weightsFile)
	fmt.Fprintln(h, loaded)
	return hex.EncodeToString(h.Sum(nil)), err
}

// weightsFile is a file of weights.
var weightsFile = files.Kind{What: "a file of weights", Bytes: math.MaxInt64}

// digestOf is the digest of a file; "" of none, whose name is "".
func digestOf(name string, k files.Kind) (string, error) {
	if name == "" {
		return "", nil
	}
	f, _, err := files.OpenRegular(name, k)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func digestBatch(h hash.Hash, b nn.Batch) {
	for _, tensors := range [][]nn.Tensor{b.Inputs, b.Targets} {
		for _, t := range tensors {
			fmt.Fprintln(h, t.Shape)
			_ = binary.Write(h, binary.LittleEndian, t.F32) // no hash fails
			_ = binary.Write(h, binary.LittleEndian, t.I32)
		}
	}
}

// Source opens the data of the training, and sets the model's vocabulary, or its images
// and classes, where the data decide them.
func (t *Training) Source() (datasets.Source, error) { return t.Model.network().kind.open(t) }

// steps returns the number of steps, and sets how often to evaluate and, where there is
// none yet, the schedule of the learning rate.
func (t *Training) steps(s datasets.Source) (int, error) {
	steps, err := t.count(s)
	if err == nil {
		err = cmp.Or(t.inWindows(steps), t.checkBest(s, steps), t.generating())
	}
	t.planned = steps
	if p := PresetOf(t.Model.Name); t.LRSchedule == "" && t.Epochs > 0 && p != nil && !t.Model.Images() {
		t.LRSchedule = p.Schedule(steps, 0)
	}
	if t.LRSchedule == "" {
		t.LRSchedule = fmt.Sprintf("inverse-sqrt:%d", WarmUp(steps))
	}
	return steps, err
}

// count returns the number of steps, and sets how often to evaluate.
func (t *Training) count(s datasets.Source) (int, error) {
	switch {
	case t.Batch < 1:
		return 0, failure.Usagef("a mini-batch of %d examples: want 1 or more", t.Batch)
	case t.Steps < 0 || t.Epochs < 0 || t.Steps > MaxSteps || t.Epochs > MaxSteps:
		return 0, failure.Usagef("%d steps, %d epochs: want 1 to %d", t.Steps, t.Epochs, MaxSteps)
	case t.RecomputeStatistics < 0:
		return 0, failure.Usagef("statistics recomputed over %d examples: want 0 or more", t.RecomputeStatistics)
	case t.Keep == KeepBest && t.Processes != nil:
		return 0, failure.Usagef("the best weights of a training of several processes: want one process, or the last weights")
	case t.Patience < 0 || t.Patience > 0 && t.Keep != KeepBest:
		return 0, failure.Usagef("a patience of %d evaluations: want 0 or more, and the best weights to be kept if there is any", t.Patience)
	case t.EvalEvery < 0:
		return 0, failure.Usagef("an evaluation every %d steps: want 0 or more", t.EvalEvery)
	case t.Load != "" && t.LoadPart != "":
		return 0, failure.Usagef("a file of weights to load and one to load a part of: want one of them")
	case t.SaveEMA && (t.EMA == 0 || t.Save == ""):
		return 0, failure.Usagef("saving the average of the weights needs its decay and a file: want both")
	}
	t.epochSteps = s.Batches(datasets.Train, t.Batch)
	if t.EvalEvery == 0 && t.Model.Images() {
		t.EvalEvery = t.epochSteps
	}
	switch {
	case t.Steps > 0:
		return t.Steps, nil
	case t.Epochs == 0 && t.Load == "" && t.LoadPart == "" && t.Save == "":
		return 0, failure.Usagef("neither steps nor epochs: want one of them, or a file of weights to load or to save")
	case t.Epochs == 0 && t.Snapshots.Dir != "":
		return 0, failure.Usagef("no step, and so no snapshots: want steps, or no directory for snapshots")
	case t.Epochs == 0:
		return 0, nil // only to be evaluated, or initial weights to be saved
	}
	if t.epochSteps == 0 {
		return 0, failure.Usagef("%s is endless and has no epochs: want a number of steps", s.Name())
	}
	if t.Epochs > MaxSteps/t.epochSteps {
		return 0, failure.Usagef("%d epochs of %d steps each: want at most %d steps", t.Epochs, t.epochSteps, MaxSteps)
	}
	return t.epochSteps * t.Epochs, nil
}

// MaxSteps is the largest number of steps.
const MaxSteps = 1<<31 - 1

// inWindows refuses what happens between two steps of one window: with an asynchronous schedule,
// stages have different weights there.
func (t *Training) inWindows(steps int) error {
	window := t.Setup.Window
	if window < 2 {
		return nil
	}
	for _, at := range []struct {
		what string
		step int
	}{
		{"%d steps", steps}, {"an evaluation every %d steps", t.EvalEvery}, {"a snapshot every %d steps", t.Snapshots.Every}, {"a hash after %d steps", t.HashAfter},
	} {
		if at.step%window != 0 {
			return failure.Usagef(at.what+" in windows of %d: want a multiple, since the pipeline drains at a window's end", at.step, window)
		}
	}
	return nil
}

// WarmUp is how many of a training's steps the learning rate rises where its user does
// not say: 200, or a quarter of the steps if that is less.
func WarmUp(steps int) int { return max(1, min(200, steps/4)) }

// uses are what a pipeline is opened for, as its devices' memory depends on it.
type uses uint8

const (
	toTrain uses = 1 << iota
	toEvaluate
	toPredict // translations, or text of a language model; of other networks: nothing
)

// open builds the model and opens its pipeline. Layers whose times are measured
// already are not timed again.
func (t *Training) open(ctx context.Context, to uses, measured []float64) (*Loop, error) {
	p, in, err := t.pipeline()
	if err != nil {
		return nil, err
	}
	if to&toEvaluate != 0 {
		p.Evaluating = in
	}
	if to&toPredict != 0 {
		p.Predicting = t.predicting
	}
	trained := in
	if to&toTrain == 0 {
		trained = gpipe.Input{}
	}
	if err := p.CheckMemory(trained); err != nil { // before anything is measured
		return nil, err
	}
	if err := t.Processes.join(ctx, t.Setup, &p, t.data); err != nil {
		return nil, err
	}
	if err := t.Setup.setCosts(ctx, &p, in, measured); err != nil {
		return nil, err
	}
	// Opening takes seconds where weights are many, and several pipelines may follow.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	trainer, err := p.Open(trained)
	if err != nil {
		return nil, err
	}
	return &Loop{Trainer: trainer, Pipeline: p, training: t}, nil
}

// pipeline builds the model and returns its pipeline, not yet cut, and its input.
func (t *Training) pipeline() (p gpipe.Pipeline, in gpipe.Input, err error) {
	layers, err := t.model().Build()
	if err != nil {
		return p, in, err
	}
	if t.RecomputeStatistics > 0 && !slices.ContainsFunc(layers, hasMovingAverages) {
		return p, in, failure.Usagef("statistics recomputed over %d examples for %s, which has no batch norm: want 0", t.RecomputeStatistics, t.Model.Name)
	}
	l, err := t.Model.Loss(t.LabelSmoothing)
	if err != nil {
		return p, in, err
	}
	optimizer, err := ParseOptimizer(t.Optimizer)
	if err != nil {
		return p, in, failure.Usage(err)
	}
	rate, err := (nn.LRUnits{Batch: t.Batch, EpochSteps: t.epochSteps}).Parse(t.LRSchedule, t.LR)
	if err != nil {
		return p, in, failure.Usage(err)
	}
	if in = t.input; in.Examples == 0 {
		in = t.Model.Input(t.Batch)
	}
	if p, err = t.Setup.Uncut(layers, l, in); err != nil {
		return p, in, err
	}
	p.Seed, p.Optimizer, p.LR, p.ClipNorm, p.L2 = t.Seed, optimizer, rate, t.ClipNorm, t.L2
	p.EMA, p.KeepsState, p.RecordsReductions = nn.EMA{Decay: t.EMA}, t.Snapshots.Dir != "", t.Reductions
	return p, in, failure.Usage(p.Validate(in))
}

// model returns the model with what depends on the training's steps.
func (t *Training) model() Model {
	m := t.Model
	if m.DropPathRise != "" && m.DropPathRise != RiseDepth {
		m.DropPathSteps = t.planned
	}
	return m
}
