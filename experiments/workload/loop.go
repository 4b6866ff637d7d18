package workload

import (
	"cmp"
	"context"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
)

// Loop is a training that is open, and what makes its steps, for whatever purpose.
// Its position is the number of steps that are done. What a step computes depends
// on the weights and the optimiser's state before it, the position, and the
// training's settings, and on nothing else.
type Loop struct {
	Trainer  *gpipe.Trainer
	Pipeline gpipe.Pipeline  // that Trainer runs
	Source   datasets.Source // nil: Timing opened it
	Steps    int             // of the whole training

	training *Training
	batch    func(done int) (nn.Batch, error) // of the step at a position
}

// Hooks are called while a Loop runs, on its goroutine. An error of one ends the
// run, which returns it. Nil: there is none.
type Hooks struct {
	// At is called at every position: before each step, and after the last.
	At func(done int) error
	// After is called with every step that is done.
	After func(*TrainStep) error
}

// Open opens the training's data and pipeline, and loads the weights of a file if it is
// to. It refuses what would only fail later.
func (t Training) Open(ctx context.Context) (l *Loop, err error) {
	source, err := t.Source()
	if err != nil {
		return nil, err
	}
	steps, err := t.steps(source)
	if err != nil {
		return nil, err
	}
	if err := t.generating(); err != nil {
		return nil, err
	}
	to := toEvaluate | toPredict
	if steps > 0 {
		to |= toTrain
	}
	if l, err = t.open(ctx, to, nil); err != nil {
		return nil, err
	}
	l.Source, l.Steps = source, steps
	l.batch = func(done int) (nn.Batch, error) {
		b, err := source.Batch(datasets.Train, done, t.Batch)
		if err != nil {
			return b, err
		}
		return t.blind(b), nil
	}
	if err = l.prepareLast(); err == nil {
		err = cmp.Or(t.load(l), t.loadPart(l))
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Close frees the pipeline's devices.
func (l *Loop) Close() error { return l.Trainer.Close() }

// Run makes the steps that are not done yet.
func (l *Loop) Run(ctx context.Context, h Hooks) error {
	for {
		done := l.Trainer.Steps()
		if h.At != nil {
			if err := h.At(done); err != nil {
				return err
			}
		}
		if done >= l.Steps {
			return nil
		}
		step, err := l.Step(ctx)
		if err != nil {
			return err
		}
		if h.After != nil {
			if err := h.After(step); err != nil {
				return err
			}
		}
	}
}

// Step makes the step at the position, also beyond the training's last.
func (l *Loop) Step(ctx context.Context) (*TrainStep, error) {
	b, err := l.batch(l.Trainer.Steps())
	if err != nil {
		return nil, err
	}
	r, err := l.Trainer.Step(ctx, b)
	if err != nil {
		return nil, err
	}
	return &TrainStep{Step: l.Trainer.Steps(), Steps: l.Steps, Result: r, Examples: b.Examples()}, nil
}

// Memory returns each device's planned peak and what has been used of it, in bytes.
func (l *Loop) Memory() (peak, high []int64) {
	for k, plan := range l.Trainer.Plans() {
		_, used := l.Trainer.HighWater(k)
		peak, high = append(peak, plan.Peak), append(high, used)
	}
	return peak, high
}

// expect estimates how long a training will take from forward passes of its first
// mini-batch, which do not change the weights. A backward pass counts as two.
func (l *Loop) expect(ctx context.Context) (time.Duration, error) {
	batch, err := l.batch(0)
	if err != nil {
		return 0, err
	}
	var forward time.Duration
	for range 2 { // the first one makes programs and touches memory for the first time
		start := time.Now()
		if _, err := l.Trainer.Evaluate(ctx, batch); err != nil {
			return 0, err
		}
		if forward = time.Since(start); forward > time.Second {
			break
		}
	}
	t := l.training
	passes := 3
	if t.Setup.Checkpoint != schedule.Never {
		passes++
	}
	evaluations := 1
	if t.EvalEvery > 0 {
		evaluations = (l.Steps + t.EvalEvery - 1) / t.EvalEvery
	}
	passes = passes*l.Steps + evaluations*l.Source.Batches(datasets.HeldOut, t.Batch)
	return time.Duration(float64(passes) * float64(forward)), nil
}

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
	if err := t.Setup.cut(ctx, &p, in, measured); err != nil {
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
