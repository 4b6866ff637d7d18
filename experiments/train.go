package experiments

import (
	"context"
	"fmt"
	"strings"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
)

// Training is a network, what it learns from, and how.
type Training struct {
	Model Model  // Vocab 0: the source's
	Data  string // synthetic or text:FILE
	// Synthetic describes the synthetic language; its vocabulary is the model's.
	Synthetic datasets.SyntheticConfig
	Setup     Setup

	Batch  int // examples of a mini-batch
	Steps  int // mini-batches to train on; 0: Epochs
	Epochs int // passes over the source

	Seed           uint64
	Optimizer      string
	LR             float64
	LRSchedule     string // as nn.ParseLRSchedule reads it
	ClipNorm       float64
	L2             float64
	LabelSmoothing float64

	EvalEvery int // evaluate every so many steps; 0: at the end only
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
		s.Step, s.Steps, s.Loss, s.LR, FormatSeconds(s.Seconds), FormatSeconds(s.ClosedForm), s.ExamplesPerSecond())
	if s.Eval != nil {
		text += "  " + s.Eval.String()
	}
	return text
}

// Evaluation is a network's score on the held-out part of its source.
type Evaluation struct {
	Step         int     `json:"step"`
	Loss         float64 `json:"loss"` // nats per target
	Perplexity   float64 `json:"perplexity"`
	BitsPerToken float64 `json:"bits_per_token"`
	BitsPerByte  float64 `json:"bits_per_byte,omitempty"` // of texts, whose tokens are bytes
	Accuracy     float64 `json:"accuracy"`
	Targets      int     `json:"targets"`
}

func (e *Evaluation) String() string {
	measure := fmt.Sprintf("perplexity %.4g", e.Perplexity)
	if e.BitsPerByte > 0 {
		measure = fmt.Sprintf("%.4f bits per byte", e.BitsPerByte)
	}
	return fmt.Sprintf("held-out loss %.4f, %s, accuracy %.2f%%", e.Loss, measure, 100*e.Accuracy)
}

// Yardstick is a loss to hold the held-out loss against.
type Yardstick struct {
	Name  string  `json:"name"`
	Loss  float64 `json:"loss"` // nats per target
	Bits  float64 `json:"bits"`
	Floor bool    `json:"floor"` // nothing can be expected to do better
}

// TrainResult is the outcome. The first five keys are the ones that other programs
// rely on.
type TrainResult struct {
	WeightsSHA256     string      `json:"weights_sha256"`
	Losses            []float64   `json:"losses"`
	Eval              *Evaluation `json:"eval"`
	PeakBytes         []int64     `json:"peak_bytes"` // planned, by device
	ExamplesPerSecond float64     `json:"examples_per_second"`

	InitialSHA256  string       `json:"initial_sha256"` // of the weights before the first step
	Yardsticks     []Yardstick  `json:"yardsticks"`
	Evals          []Evaluation `json:"evals,omitempty"` // those on the way
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

// source opens what the training learns from, and settles the model's vocabulary.
func (t *Training) source() (datasets.Source, error) {
	config := datasets.Config{SeqLen: t.Model.Seq, Seed: t.Seed, Synthetic: t.Synthetic}
	config.Synthetic.Vocab = t.Model.Vocab
	s, err := datasets.Open(t.Data, config)
	if err != nil {
		if file, ok := strings.CutPrefix(t.Data, "text:"); ok && file != "" {
			return nil, err // the file's fault
		}
		return nil, usage(err)
	}
	switch {
	case t.Model.Vocab == 0:
		t.Model.Vocab = s.Vocab()
	case t.Model.Vocab < s.Vocab():
		return nil, usagef("a vocabulary of %d for %s: want %d or more, the values that its tokens take", t.Model.Vocab, s.Name(), s.Vocab())
	}
	return s, nil
}

// steps settles the number of steps.
func (t *Training) steps(s datasets.Source) (int, error) {
	switch {
	case t.Batch < 1:
		return 0, usagef("a mini-batch of %d examples: want 1 or more", t.Batch)
	case t.Steps < 0 || t.Epochs < 0:
		return 0, usagef("%d steps, %d epochs: want 1 or more", t.Steps, t.Epochs)
	case t.Steps > 0:
		return t.Steps, nil
	case t.Epochs == 0:
		return 0, usagef("neither steps nor epochs: want one of them")
	}
	n := s.Batches(datasets.Train, t.Batch)
	if n == 0 {
		return 0, usagef("%s has no end and so no epochs: want a number of steps", s.Name())
	}
	return n * t.Epochs, nil
}

// Run trains, and evaluates at the end. It tells onStep about every step.
func (t Training) Run(ctx context.Context, onStep func(TrainStep)) (*TrainResult, error) {
	source, err := t.source()
	if err != nil {
		return nil, err
	}
	steps, err := t.steps(source)
	if err != nil {
		return nil, err
	}
	trainer, p, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer trainer.Close()

	r := &TrainResult{Params: nn.CountParams(p.Layers), Device: t.Setup.Device.String(), KernelProfile: kernelProfile()}
	r.Partition, r.Note = trainer.Sizes()
	r.InitialSHA256 = trainer.Hash()
	clock := stepClock{sizes: gpipe.MicroBatchSizes(t.Batch, t.Setup.MicroBatches)}
	for i := range steps {
		b, err := source.Batch(datasets.Train, i, t.Batch)
		if err != nil {
			return nil, err
		}
		res, err := trainer.Step(ctx, b)
		if err != nil {
			return nil, err
		}
		r.Losses = append(r.Losses, res.Loss)
		r.LastStep = res.Timeline
		step := TrainStep{Step: i + 1, Steps: steps, Result: res, Examples: b.Examples()}
		if step.ClosedForm, err = res.Times.ClosedForm(p.Schedule, p.Checkpoint, p.LateRecompute); err != nil {
			return nil, err
		}
		if b.Examples() == t.Batch {
			clock.add(res)
		}
		if t.EvalEvery > 0 && (i+1)%t.EvalEvery == 0 && i+1 < steps {
			if step.Eval, err = evaluate(ctx, trainer, source, t.Batch); err != nil {
				return nil, err
			}
			r.Evals = append(r.Evals, *step.Eval)
		}
		if onStep != nil {
			onStep(step)
		}
	}
	if r.Eval, err = evaluate(ctx, trainer, source, t.Batch); err != nil {
		return nil, err
	}
	ys, err := source.Yardsticks()
	if err != nil {
		return nil, err
	}
	for _, y := range ys {
		r.Yardsticks = append(r.Yardsticks, Yardstick{y.Name, y.Nats, y.Bits(), y.Floor})
	}
	r.WeightsSHA256 = trainer.Hash()
	r.PeakBytes, r.HighWaterBytes = memoryOf(trainer)
	if r.StepSeconds, r.ClosedForm, err = clock.read(t.Setup); err != nil {
		return nil, err
	}
	if r.StepSeconds > 0 {
		r.ExamplesPerSecond = float64(t.Batch) / r.StepSeconds
	}
	return r, nil
}

// open builds the model and opens its pipeline.
func (t *Training) open(ctx context.Context) (*gpipe.Trainer, gpipe.Pipeline, error) {
	var none gpipe.Pipeline
	layers, err := t.Model.Build()
	if err != nil {
		return nil, none, err
	}
	l, err := loss(t.LabelSmoothing)
	if err != nil {
		return nil, none, err
	}
	optimizer, err := ParseOptimizer(t.Optimizer)
	if err != nil {
		return nil, none, usage(err)
	}
	rate, err := nn.ParseLRSchedule(t.LRSchedule, t.LR)
	if err != nil {
		return nil, none, usage(err)
	}
	in := t.Model.Input(t.Batch)
	p, err := t.Setup.pipeline(ctx, layers, l, in)
	if err != nil {
		return nil, none, err
	}
	p.Seed, p.Optimizer, p.LR, p.ClipNorm, p.L2 = t.Seed, optimizer, rate, t.ClipNorm, t.L2
	if err := p.Validate(in); err != nil {
		return nil, none, usage(err)
	}
	trainer, err := p.Open(in)
	return trainer, p, err
}

// evaluate scores a network on all held-out batches.
func evaluate(ctx context.Context, trainer *gpipe.Trainer, s datasets.Source, examples int) (*Evaluation, error) {
	e := &Evaluation{Step: trainer.Steps()}
	var sum float64
	correct := 0
	for i := range s.Batches(datasets.HeldOut, examples) {
		b, err := s.Batch(datasets.HeldOut, i, examples)
		if err != nil {
			return nil, err
		}
		r, err := trainer.Evaluate(ctx, b)
		if err != nil {
			return nil, err
		}
		sum += r.Loss * float64(r.Count)
		correct += r.Correct
		e.Targets += r.Count
	}
	if e.Targets == 0 {
		return nil, fmt.Errorf("%s: nothing held out to evaluate on", s.Name())
	}
	e.Loss = sum / float64(e.Targets)
	e.Perplexity = perplexity(e.Loss)
	e.BitsPerToken = bits(e.Loss)
	e.Accuracy = float64(correct) / float64(e.Targets)
	if strings.HasPrefix(s.Name(), "text:") {
		e.BitsPerByte = e.BitsPerToken
	}
	return e, nil
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
	seconds = median(wall)
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
