package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gpipebench/datasets"
	"gpipebench/experiments/machine"
	"gpipebench/experiments/stats"
	"gpipebench/experiments/units"
	"gpipebench/experiments/usage"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/files"
	"gpipebench/nn"
)

// Training is a network, what it learns from, and how.
type Training struct {
	Model Model  // Vocab, Image and Classes 0: the source's
	Data  string // as datasets.Open reads it
	// Config says how Data is read. Its Seed, lengths, vocabularies, size of images
	// and classes are the training's and the model's.
	Config datasets.Config
	Setup  Setup

	Batch  int // examples of a mini-batch
	Steps  int // mini-batches to train on; 0: Epochs, and if these are 0 none: Load and Save are for that, too
	Epochs int // passes over the source

	Seed           uint64
	Optimizer      string
	LR             float64
	LRSchedule     string // as nn.LRUnits.Parse reads it
	ClipNorm       float64
	L2             float64
	LabelSmoothing float64
	// EMA is the decay of an average of the weights, as nn.EMA has it, with
	// which the network is evaluated; 0: none.
	EMA float64

	EvalEvery int // evaluate every so many steps; 0: at the end only, of images behind each epoch

	EmptySource bool // a translator is shown no source
	Beam        int  // of the search for translations; 0 or 1: greedy

	Load, Save string // files of weights to begin with and to end with; "": none
	SaveEMA    bool   // Save the average instead of the weights that were trained
	HashAfter  int    // a step to take a hash behind; 0: none

	// Announce is told before the first step how long all of them will take,
	// about. Nil: that is not found out, which takes about half a step.
	Announce func(steps int, expected time.Duration)
	// Closing is told what begins behind the last step and may take long. Nil:
	// nobody is told.
	Closing func(what string)
	// Notice is told, in a line, what Load's file does not say and is therefore not
	// checked, and what is taken from it instead of the data. Nil: nobody is told.
	Notice func(what string)

	input      gpipe.Input // of a Shaped source: its largest mini-batch
	predicting gpipe.Input // of a translator: the largest that a search predicts
	epochSteps int         // mini-batches of an epoch; 0: there are no epochs
}

// TrainStep is one step as it is reported while a training runs.
type TrainStep struct {
	Step, Steps int
	*gpipe.Result
	ClosedForm float64     // seconds
	Examples   int         // of this step's mini-batch
	Eval       *Evaluation // if one was due behind this step
}

// ExamplesPerSecond is the step's throughput on its devices' clock.
func (s TrainStep) ExamplesPerSecond() float64 { return float64(s.Examples) / s.Seconds }

func (s TrainStep) String() string {
	text := fmt.Sprintf("step %d/%d  loss %.4f  lr %.3g  step time %s (closed form %s)  %.4g examples/s",
		s.Step, s.Steps, s.Loss, s.LR, units.FormatSeconds(s.Seconds), units.FormatSeconds(s.ClosedForm), s.ExamplesPerSecond())
	if s.Eval != nil {
		text += "  " + s.Eval.String()
	}
	return text
}

// Evaluation is a network's score on the held-out part of its source: without
// dropout, label smoothing, auxiliary head and L2, whatever it is trained with.
type Evaluation struct {
	Step         int     `json:"step"`
	Loss         float64 `json:"loss"`                 // nats per target
	Perplexity   float64 `json:"perplexity,omitempty"` // "Infinity" where the loss is above 709.78 nats
	BitsPerToken float64 `json:"bits_per_token,omitempty"`
	BitsPerByte  float64 `json:"bits_per_byte,omitempty"` // of texts, whose tokens are bytes
	Accuracy     float64 `json:"accuracy"`
	Targets      int     `json:"targets"`
	Averaged     bool    `json:"averaged,omitempty"` // of the weights' average

	// Of images, instead of perplexity and bits: the parts whose class was the
	// network's first guess (which is the accuracy), or among its first five.
	Top1 *float64 `json:"top1,omitempty"`
	Top5 *float64 `json:"top5,omitempty"`

	// Of translations; BLEU only at the end of a training.
	BLEU      *float64        `json:"bleu,omitempty"` // of all languages as one corpus
	Languages []LanguageScore `json:"languages,omitempty"`
}

func (e *Evaluation) String() string {
	measure := fmt.Sprintf("perplexity %.4g", e.Perplexity)
	if e.BitsPerByte > 0 {
		measure = fmt.Sprintf("%.4f bits per byte", e.BitsPerByte)
	}
	text := fmt.Sprintf("held-out loss %.4f, %s, accuracy %.2f%%", e.Loss, measure, 100*e.Accuracy)
	if e.Top5 != nil {
		text = fmt.Sprintf("held-out loss %.4f, top-1 %.2f%%, top-5 %.2f%%", e.Loss, 100**e.Top1, 100**e.Top5)
	}
	if e.Averaged {
		text += " with the averaged weights"
	}
	if e.BLEU != nil {
		text += fmt.Sprintf(", BLEU %.2f", *e.BLEU)
	}
	return text
}

// Yardstick is a loss to hold the held-out loss against.
type Yardstick struct {
	Name  string  `json:"name"`
	Loss  float64 `json:"loss"` // nats per target
	Bits  float64 `json:"bits"`
	Floor bool    `json:"floor"` // nothing can be expected to do better

	Accuracy float64 `json:"accuracy,omitempty"` // of images
}

// TrainResult is the outcome. The first five keys are the ones that other programs
// rely on.
type TrainResult struct {
	WeightsSHA256     string      `json:"weights_sha256"`
	Losses            []float64   `json:"losses"` // of the steps: what is trained, smoothing and auxiliary head included
	Eval              *Evaluation `json:"eval"`
	PeakBytes         []int64     `json:"peak_bytes"` // planned, by device
	ExamplesPerSecond float64     `json:"examples_per_second"`

	InitialSHA256  string       `json:"initial_sha256"`         // of the weights before the first step
	HashAfter      string       `json:"sha256_after,omitempty"` // what Training.HashAfter asks for
	EMASHA256      string       `json:"ema_sha256,omitempty"`   // of the weights' average
	Yardsticks     []Yardstick  `json:"yardsticks"`
	Baselines      []Baseline   `json:"baselines,omitempty"` // of translations
	Evals          []Evaluation `json:"evals,omitempty"`     // those on the way
	HighWaterBytes []int64      `json:"high_water_bytes"`
	Params         int64        `json:"params"`
	Partition      []int        `json:"partition"` // layers of each partition
	Note           string       `json:"partition_note,omitempty"`
	Device         string       `json:"device"`
	StepSeconds    float64      `json:"step_seconds"`
	ClosedForm     float64      `json:"closed_form_seconds"` // of the same step, stages even
	KernelProfile  string       `json:"kernel_profile"`

	LastStep *timeline.Timeline `json:"-"`
}

// Source opens what the training learns from, and settles the model's vocabulary,
// or its images and classes.
func (t *Training) Source() (datasets.Source, error) { return t.Model.network().kind.open(t) }

// steps settles the number of steps.
func (t *Training) steps(s datasets.Source) (int, error) {
	switch {
	case t.Beam < 0 || t.Beam > MaxBeam:
		return 0, usage.Errorf("a beam of %d: want 1 to %d", t.Beam, MaxBeam)
	case t.Batch < 1:
		return 0, usage.Errorf("a mini-batch of %d examples: want 1 or more", t.Batch)
	case t.Steps < 0 || t.Epochs < 0 || t.Steps > MaxSteps || t.Epochs > MaxSteps:
		return 0, usage.Errorf("%d steps, %d epochs: want 1 to %d", t.Steps, t.Epochs, MaxSteps)
	case t.EvalEvery < 0:
		return 0, usage.Errorf("an evaluation every %d steps: want 0 or more", t.EvalEvery)
	case t.SaveEMA && (t.EMA == 0 || t.Save == ""):
		return 0, usage.Errorf("the average is to be saved, but there is no decay for one or no file to save to: want both")
	}
	t.epochSteps = s.Batches(datasets.Train, t.Batch)
	if t.EvalEvery == 0 && t.Model.Images() {
		t.EvalEvery = t.epochSteps
	}
	switch {
	case t.Steps > 0:
		return t.Steps, nil
	case t.Epochs == 0 && (t.Load != "" || t.Save != ""):
		return 0, nil // only to be evaluated, or initial weights to be saved
	case t.Epochs == 0:
		return 0, usage.Errorf("neither steps nor epochs: want one of them, or a file of weights to load or to save")
	}
	if t.epochSteps == 0 {
		return 0, usage.Errorf("%s has no end and so no epochs: want a number of steps", s.Name())
	}
	if t.Epochs > MaxSteps/t.epochSteps {
		return 0, usage.Errorf("%d epochs of %d steps each: want at most %d steps", t.Epochs, t.epochSteps, MaxSteps)
	}
	return t.epochSteps * t.Epochs, nil
}

// The largest numbers of steps and of hypotheses of a search: what takes longer
// is a mistake.
const (
	MaxSteps = 1<<31 - 1
	MaxBeam  = 256
)

// Run trains, and evaluates at the end. It tells onStep about every step. When all
// steps are done there is a result even if there is an error: of what comes behind
// them, such as evaluating.
func (t Training) Run(ctx context.Context, onStep func(TrainStep)) (*TrainResult, error) {
	if err := files.CheckWritable(t.Save); err != nil {
		return nil, err
	}
	begun, err := t.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer begun.Trainer.Close()
	source, trainer, p, steps := begun.Source, begun.Trainer, begun.Pipeline, begun.Steps
	if t.Announce != nil && steps > 0 {
		expected, err := begun.expect(ctx, &t)
		if err != nil {
			return nil, err
		}
		t.Announce(steps, expected)
	}
	r := &TrainResult{Losses: []float64{}, Params: nn.CountParams(p.Layers), Device: t.Setup.Device.String(), KernelProfile: machine.KernelProfile()}
	r.Partition, r.Note = trainer.Sizes()
	r.InitialSHA256 = trainer.Hash()
	clock := stepClock{sizes: gpipe.MicroBatchSizes(t.Batch, t.Setup.MicroBatches)}
	for i := range steps {
		b, err := source.Batch(datasets.Train, i, t.Batch)
		if err != nil {
			return nil, err
		}
		res, err := trainer.Step(ctx, t.blind(b))
		if err != nil {
			return nil, err
		}
		r.Losses = append(r.Losses, res.Loss)
		r.LastStep = res.Timeline
		if i+1 == t.HashAfter {
			r.HashAfter = trainer.Hash()
		}
		step := TrainStep{Step: i + 1, Steps: steps, Result: res, Examples: b.Examples()}
		if step.ClosedForm, err = res.Times.ClosedForm(p.Schedule, p.Checkpoint, p.LateRecompute); err != nil {
			return nil, err
		}
		if b.Examples() == t.Batch {
			clock.add(res)
		}
		if t.EvalEvery > 0 && (i+1)%t.EvalEvery == 0 && i+1 < steps {
			if step.Eval, err = t.Evaluate(ctx, trainer, source); err != nil {
				return nil, err
			}
			r.Evals = append(r.Evals, *step.Eval)
		}
		if onStep != nil {
			onStep(step)
		}
	}
	err = t.conclude(ctx, begun, r, &clock)
	r.PeakBytes, r.HighWaterBytes = MemoryOf(trainer)
	return r, err
}

// conclude is what comes behind the last step: the outcome, what is saved, and
// scores. Any of it may fail or be interrupted, so what a training leaves comes
// first.
func (t *Training) conclude(ctx context.Context, b *begun, r *TrainResult, clock *stepClock) (err error) {
	r.WeightsSHA256 = b.Trainer.Hash()
	if t.EMA != 0 {
		if err := b.Trainer.Averaged(func() error { r.EMASHA256 = b.Trainer.Hash(); return nil }); err != nil {
			return err
		}
	}
	if r.StepSeconds, r.ClosedForm, err = clock.read(t.Setup); err != nil {
		return err
	}
	if r.StepSeconds > 0 {
		r.ExamplesPerSecond = float64(t.Batch) / r.StepSeconds
	}
	if t.Save != "" {
		if err := t.save(b); err != nil {
			return err
		}
	}
	t.closing("evaluating on what is held out")
	if r.Eval, err = t.Evaluate(ctx, b.Trainer, b.Source); err != nil {
		return err
	}
	if pairs, ok := b.Source.(*datasets.Translation); ok {
		t.closing("translating what is held out")
		if err := t.Translate(ctx, b.Trainer, pairs, r.Eval); err != nil {
			return err
		}
		r.Baselines = baselines(pairs)
	}
	ys, err := b.Source.Yardsticks()
	if err != nil {
		return err
	}
	for _, y := range ys {
		r.Yardsticks = append(r.Yardsticks, Yardstick{y.Name, y.Nats, y.Bits(), y.Floor, y.Accuracy})
	}
	return nil
}

// begun is a training that is ready for its first step.
type begun struct {
	Source   datasets.Source
	Trainer  *gpipe.Trainer // to be closed
	Pipeline gpipe.Pipeline
	Steps    int
}

// Begin opens source and pipeline, loads weights, and refuses what would only
// fail later.
func (t *Training) Begin(ctx context.Context) (b *begun, err error) {
	b = &begun{}
	if b.Source, err = t.Source(); err != nil {
		return nil, err
	}
	if b.Steps, err = t.steps(b.Source); err != nil {
		return nil, err
	}
	to := ToEvaluate | toTranslate
	if b.Steps > 0 {
		to |= ToTrain
	}
	if b.Trainer, b.Pipeline, err = t.Open(ctx, to); err != nil {
		return nil, err
	}
	if err = b.prepareLast(t); err == nil {
		err = t.load(b)
	}
	if err != nil {
		b.Trainer.Close()
		return nil, err
	}
	return b, nil
}

// expect estimates how long a training will take from forward passes of its
// first mini-batch, which change nothing. A backward pass counts as two.
func (b *begun) expect(ctx context.Context, t *Training) (time.Duration, error) {
	batch, err := b.Source.Batch(datasets.Train, 0, t.Batch)
	if err != nil {
		return 0, err
	}
	batch = t.blind(batch)
	var forward time.Duration
	for range 2 { // the first one makes programs and touches memory for the first time
		start := time.Now()
		if _, err := b.Trainer.Evaluate(ctx, batch); err != nil {
			return 0, err
		}
		if forward = time.Since(start); forward > time.Second {
			break
		}
	}
	passes := 3
	if t.Setup.Checkpoint != schedule.Never {
		passes++
	}
	evaluations := 1
	if t.EvalEvery > 0 {
		evaluations = (b.Steps + t.EvalEvery - 1) / t.EvalEvery
	}
	passes = passes*b.Steps + evaluations*b.Source.Batches(datasets.HeldOut, t.Batch)
	return time.Duration(float64(passes) * float64(forward)), nil
}

// pipeline builds the model and describes its pipeline, not yet cut, and what it
// takes.
func (t *Training) pipeline() (p gpipe.Pipeline, in gpipe.Input, err error) {
	layers, err := t.Model.Build()
	if err != nil {
		return p, in, err
	}
	l, err := t.Model.Loss(t.LabelSmoothing)
	if err != nil {
		return p, in, err
	}
	optimizer, err := ParseOptimizer(t.Optimizer)
	if err != nil {
		return p, in, usage.Mark(err)
	}
	rate, err := (nn.LRUnits{Batch: t.Batch, EpochSteps: t.epochSteps}).Parse(t.LRSchedule, t.LR)
	if err != nil {
		return p, in, usage.Mark(err)
	}
	if in = t.input; in.Examples == 0 {
		in = t.Model.Input(t.Batch)
	}
	if p, err = t.Setup.Uncut(layers, l, in); err != nil {
		return p, in, err
	}
	p.Seed, p.Optimizer, p.LR, p.ClipNorm, p.L2 = t.Seed, optimizer, rate, t.ClipNorm, t.L2
	p.EMA = nn.EMA{Decay: t.EMA}
	return p, in, usage.Mark(p.Validate(in))
}

// uses are what a pipeline is opened for: its devices' memory is planned for that.
type uses uint8

const (
	ToTrain uses = 1 << iota
	ToEvaluate
	toTranslate // of other networks: nothing
)

// Open builds the model and opens its pipeline.
func (t *Training) Open(ctx context.Context, to uses) (*gpipe.Trainer, gpipe.Pipeline, error) {
	var none gpipe.Pipeline
	p, in, err := t.pipeline()
	if err != nil {
		return nil, none, err
	}
	if to&ToEvaluate != 0 {
		p.Evaluating = in
	}
	if to&toTranslate != 0 {
		p.Predicting = t.predicting
	}
	trained := in
	if to&ToTrain == 0 {
		trained = gpipe.Input{}
	}
	if err := p.CheckMemory(trained); err != nil { // before anything is measured
		return nil, none, err
	}
	if err := t.Setup.cut(ctx, &p, in); err != nil {
		return nil, none, err
	}
	trainer, err := p.Open(trained)
	return trainer, p, err
}

// averaged runs f with the weights' average in their place, if there is one.
func (t *Training) averaged(trainer *gpipe.Trainer, f func() error) error {
	if t.EMA == 0 {
		return f()
	}
	return trainer.Averaged(f)
}

func (t *Training) closing(what string) {
	if t.Closing != nil {
		t.Closing(what)
	}
}

// Evaluate scores a network on all held-out batches.
func (t *Training) Evaluate(ctx context.Context, trainer *gpipe.Trainer, s datasets.Source) (e *Evaluation, err error) {
	err = t.averaged(trainer, func() error {
		e, err = t.evaluateAsIs(ctx, trainer, s)
		return err
	})
	if e != nil {
		e.Averaged = t.EMA != 0
	}
	return e, err
}

// evaluateAsIs evaluates the weights that are in place.
func (t *Training) evaluateAsIs(ctx context.Context, trainer *gpipe.Trainer, s datasets.Source) (*Evaluation, error) {
	if pairs, ok := s.(*datasets.Translation); ok {
		return t.evaluatePairs(ctx, trainer, pairs)
	}
	var sum tally
	for i := range s.Batches(datasets.HeldOut, t.Batch) {
		b, err := s.Batch(datasets.HeldOut, i, t.Batch)
		if err != nil {
			return nil, err
		}
		if err := sum.add(ctx, trainer, b); err != nil {
			return nil, err
		}
	}
	if sum.targets == 0 {
		return nil, fmt.Errorf("%s: nothing held out to evaluate on", s.Name())
	}
	e := sum.evaluation(trainer.Steps())
	if strings.HasPrefix(s.Name(), "text:") {
		e.BitsPerByte = e.BitsPerToken
	}
	return e, nil
}

// tally sums evaluations up.
type tally struct {
	loss             float64
	correct, targets int
	five             int  // targets among the first five
	images           bool // which has been counted
}

func (t *tally) add(ctx context.Context, trainer *gpipe.Trainer, b nn.Batch) error {
	r, err := trainer.Evaluate(ctx, b)
	if err != nil {
		return err
	}
	t.loss += r.Loss * float64(r.Count)
	t.correct += r.Correct
	t.targets += r.Count
	if r.Ranks != nil {
		t.five += r.Within(5)
		t.images = true
	}
	return nil
}

func (t *tally) evaluation(step int) *Evaluation {
	e := &Evaluation{Step: step, Targets: t.targets}
	e.Loss = t.loss / float64(t.targets)
	e.Accuracy = float64(t.correct) / float64(t.targets)
	if t.images {
		five := float64(t.five) / float64(t.targets)
		e.Top1, e.Top5 = &e.Accuracy, &five
		return e
	}
	e.Perplexity = perplexity(e.Loss)
	e.BitsPerToken = bits(e.Loss)
	return e
}

// stepClock makes one time of many steps: on host devices the median of their
// wall times; on emulated ones a replay in which every kind of task takes the
// median of its repeats. The closed form gets the same medians.
type stepClock struct {
	sizes   []int
	last    []*gpipe.Result // up to clockSteps
	counted int
}

// clockSteps is how many of the last steps are looked at.
const clockSteps = 50

func (c *stepClock) add(r *gpipe.Result) {
	if len(c.last) < clockSteps {
		c.last = append(c.last, nil)
	}
	c.last[c.counted%clockSteps] = r
	c.counted++
}

func (c *stepClock) read(s Setup) (seconds, closedForm float64, err error) {
	if len(c.last) == 0 {
		return 0, 0, nil
	}
	var samples gpipe.Samples
	var wall []float64
	for _, r := range c.last {
		samples.Add(r.Times)
		wall = append(wall, r.Seconds)
	}
	times := samples.Median(c.sizes)
	seconds = stats.Median(wall)
	if s.Device == gpipe.Emulated {
		tl, err := times.Replay()
		if err != nil {
			return 0, 0, err
		}
		seconds = tl.Span()
	}
	closedForm, err = times.ClosedForm(s.Schedule, s.Checkpoint, s.LateRecompute)
	return seconds, closedForm, err
}
