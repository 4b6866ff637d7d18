package train

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/files"
	"gpipebench/internal/floatjson"
	"gpipebench/internal/shutdown"
	"gpipebench/internal/units"
	"gpipebench/nn"
)

// Run trains, and evaluates at the end. It calls onStep after every step. When all
// steps are done it returns a result even with an error, which is then of what comes
// after them, such as evaluating.
func (t Training) Run(ctx context.Context, onStep func(TrainStep)) (r *Result, err error) {
	defer func() { err = t.Processes.Leave(err) }()
	written := []string{t.Save, t.Log, t.Translations}
	if t.Processes.follows() {
		t.Log, t.Translations, written = "", "", nil
	}
	if err := t.inWindows(0); err != nil { // before anything is made
		return nil, err
	}
	for _, name := range written {
		if err := files.CheckWritable(name); err != nil {
			return nil, err
		}
	}
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	full, err := l.full()
	if err != nil {
		return nil, err
	}
	l.notices(full)
	if left := l.Steps - l.Resumed; t.Announce != nil && left > 0 {
		expected, err := l.expect(ctx, left)
		if err != nil {
			return nil, err
		}
		t.Announce(left, expected)
	}
	log, err := t.openLog(l.Resumed)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, log.close()) }()
	p := l.Pipeline
	r = &Result{Params: nn.CountParams(p.Layers), Device: t.Setup.Device.String(), KernelProfile: nn.KernelProfile(), ResumedAt: l.Resumed, Earlier: l.Earlier()}
	r.Partition, r.Note = l.Trainer.Sizes()
	r.Placement = l.Trainer.Placement()
	r.Replicas = max(t.Setup.Replicas, 1)
	r.Groups = max(t.Setup.Groups, r.Replicas)
	if t.Setup.BNScope != gpipe.ReplicaScope {
		r.BatchNormScope = t.Setup.BNScope.String()
	}
	r.DType = t.Setup.dtype()
	so := reported{Losses: []float64{}}
	if l.Resumed == 0 {
		so.InitialSHA256 = l.Trainer.Hash()
	}
	clock := stepClock{batch: full}
	every := l.training.EvalEvery
	evaluates := func(done int) bool { return every > 0 && done > 0 && done%every == 0 && done < l.Steps }
	if onStep == nil {
		onStep = func(TrainStep) {}
	}
	var evaluated *TrainStep // the step whose evaluation comes next
	err = l.Run(ctx, Hooks{Report: &so, After: func(step *TrainStep) (err error) {
		so.Losses = append(so.Losses, step.Loss)
		r.LastStep = step.Timeline
		if step.Step == t.HashAfter {
			so.HashAfter = l.Trainer.Hash()
		}
		if step.ClosedForm, err = t.Setup.closedForm(step.Times); err != nil {
			return err
		}
		if step.Examples == full {
			clock.add(step.Result)
		}
		log.add(step.Step, step.Loss, step.LR, step.Seconds, step.ExamplesPerSecond(), nil, nil)
		if evaluated = step; !evaluates(step.Step) {
			onStep(*step)
		}
		return nil
	}, At: func(done int) error {
		if !evaluates(done) {
			return nil
		}
		e, err := l.Evaluate(ctx)
		if err != nil {
			return err
		}
		log.add(done, nil, nil, nil, nil, e.Loss, e.Accuracy)
		so.Evals = append(so.Evals, *e)
		if evaluated == nil { // by the process that the training goes on from
			t.notice(fmt.Sprintf("step %d/%d  %v", done, l.Steps, e))
			return nil
		}
		evaluated.Eval = e
		onStep(*evaluated)
		return nil
	}})
	r.Losses, r.Evals, r.InitialSHA256, r.HashAfter = so.Losses, so.Evals, so.InitialSHA256, so.HashAfter
	if err != nil {
		if b := l.best; b != nil && b.Step > 0 && b.lost == nil && !b.temporary {
			err = fmt.Errorf("%w; the best weights so far, those after step %d, are in %s", err, b.Step, files.Printable(b.file))
		}
		return nil, err
	}
	err = l.keeper.interrupted(ctx, l, l.conclude(ctx, r, &clock), &so)
	r.PeakBytes, r.HighWaterBytes = l.Memory()
	r.Parts = l.Parts(clock.latest())
	if r.Eval != nil {
		log.add(l.Trainer.Steps(), nil, nil, nil, nil, r.Eval.Loss, r.Eval.Accuracy)
	}
	return r, cmp.Or(err, l.keeper.finish())
}

// reported is what a training has to report so far.
type reported struct {
	Losses        []float64    `json:"losses"`
	Evals         []Evaluation `json:"evals,omitempty"`
	InitialSHA256 string       `json:"initial_sha256"`
	HashAfter     string       `json:"sha256_after,omitempty"`
}

// conclude does what comes after the last step: the outcome, files and scores. Any of
// it may fail or be interrupted, so the weights come first.
func (l *Loop) conclude(ctx context.Context, r *Result, clock *stepClock) (err error) {
	t := l.training
	r.WeightsSHA256, r.Best = l.Trainer.Hash(), l.Best()
	if t.EMA != 0 {
		if err := l.Trainer.Averaged(func() error { r.EMASHA256 = l.Trainer.Hash(); return nil }); err != nil {
			return err
		}
	}
	step, err := clock.read(t.Setup)
	if err != nil {
		return err
	}
	r.StepSeconds, r.ClosedForm, r.Devices = step.seconds, step.closedForm, step.devices
	if r.StepSeconds > 0 {
		r.ExamplesPerSecond = float64(clock.batch) / r.StepSeconds
	}
	if t.Save != "" {
		if err := l.Save(); err != nil {
			return err
		}
	}
	if r.Eval, err = l.Score(ctx); err != nil {
		return err
	}
	r.Untrained = l.untrained()
	if pairs, ok := l.Source.(*datasets.Translation); ok {
		r.Baselines = pairs.Baselines()
	}
	if t.Generate > 0 {
		t.closing(fmt.Sprintf("generating %s, each by a forward pass", units.Counted(t.Generate, "token")))
		if r.Generated, err = l.generate(ctx); err != nil {
			return err
		}
	}
	if r.Processes, err = t.Processes.gather(ctx, l.Trainer, l.Pipeline.Transport); err != nil {
		return err
	}
	r.Traffic = t.Processes.traffic(clock.last, l.Pipeline.Transport)
	r.Yardsticks, err = l.Source.Yardsticks()
	return err
}

// Loop is a training that is open, and what makes its steps, for whatever purpose.
// Its position is the number of steps that are done. What a step computes depends
// on the weights and the optimiser's state before it, the position, and the
// training's settings, and on nothing else.
type Loop struct {
	Trainer  *gpipe.Trainer
	Pipeline gpipe.Pipeline  // that Trainer runs
	Source   datasets.Source // nil: Timing opened it
	Steps    int             // of the whole training
	Resumed  int             // the position from which a snapshot lets it go on; 0: it begins

	training *Training
	same     nn.Batch    // of every step, without a Source
	keeper   *keeper     // nil: no snapshots are written
	best     *best       // nil: the last weights are kept
	report   []byte      // of the snapshot, until Run has read it
	forget   func() bool // ends the watch for an interrupt of this process; nil: there is none
}

// Hooks are called while a Loop runs, on its goroutine. An error of one ends the
// run, which returns it. Nil: there is none.
type Hooks struct {
	// At is called at every position: before each step or window, and after the last. If it fails, it
	// leaves Report as it was. A training that goes on from a snapshot begins with it.
	At func(done int) error
	// After is called with every step that is done.
	After func(*TrainStep) error
	// Report points to what After and At have made so far, as JSON takes it. It is part of
	// each snapshot, which is written between After and At, and Run reads it back when the
	// training goes on from one.
	Report any
}

// Close frees the pipeline's devices, and waits for a snapshot that is being written.
func (l *Loop) Close() error {
	if l.forget != nil {
		l.forget()
	}
	l.keeper.close()
	l.best.close()
	return l.Trainer.Close()
}

// Run makes the steps that are not done yet. If there are snapshots and ctx is done, it
// finishes the step, or the window, writes a snapshot and returns an *[Interrupted]; otherwise the step is
// cut off. Several processes do so together, after the same step, when ctx of one is done.
func (l *Loop) Run(ctx context.Context, h Hooks) error {
	if l.report != nil && h.Report != nil {
		if err := floatjson.Unmarshal(l.report, h.Report); err != nil {
			return fmt.Errorf("%s: its progress is not in this program's format", files.Printable(l.keeper.from.Name))
		}
		l.report = nil
	}
	if l.keeper == nil {
		return l.run(ctx, ctx, h)
	}
	defer shutdown.On(ctx)()
	err := l.run(ctx, context.WithoutCancel(ctx), h)
	return l.keeper.interrupted(ctx, l, err, h.Report)
}

// together reports whether several processes run the training and end it at the same
// position when one of them is interrupted. Their steps and evaluations are not cut off.
func (l *Loop) together() bool { return l.keeper != nil && l.training.Processes != nil }

// DataDigest is the digest of the files that the examples are from; "": there are no files.
func (l *Loop) DataDigest() string { return l.training.DataDigest(l.Source) }

// errStop ends a run of several processes where all learn that one is interrupted.
var errStop = fmt.Errorf("a process is interrupted: %w", context.Canceled)

// stopped returns why a run with snapshots ends at this position, or nil.
func (l *Loop) stopped(ctx context.Context) error {
	switch {
	case !l.together():
		return ctx.Err()
	case l.Trainer.StopAsked():
		return errStop
	}
	return nil
}

// run is Run with a context for whole steps.
func (l *Loop) run(ctx, whole context.Context, h Hooks) error {
	for {
		done := l.Trainer.Steps()
		if l.keeper != nil {
			if err := l.stopped(ctx); err != nil {
				return err
			}
			if err := l.keeper.keep(l, h.Report); err != nil {
				return err
			}
		}
		if err := l.compareBest(ctx, done); err != nil {
			return err
		}
		l.endEarly(done)
		if h.At != nil {
			if err := h.At(done); err != nil {
				return err
			}
		}
		if done >= l.Steps {
			return l.takeBest()
		}
		steps, err := l.next(whole)
		if err != nil {
			return err
		}
		for _, step := range steps {
			if h.After == nil {
				break
			}
			if err := h.After(step); err != nil {
				return err
			}
		}
	}
}

// Step makes the step at the position, also beyond the training's last. With an asynchronous
// schedule it makes a window of them, and returns the last.
func (l *Loop) Step(ctx context.Context) (*TrainStep, error) {
	steps, err := l.next(ctx)
	if err != nil {
		return nil, err
	}
	return steps[len(steps)-1], nil
}

// next makes the step at the position, or the window of steps that begins there.
func (l *Loop) next(ctx context.Context) (steps []*TrainStep, err error) {
	done := l.Trainer.Steps()
	batches := make([]nn.Batch, max(1, l.Pipeline.Window))
	for i := range batches {
		if batches[i], err = l.batch(done + i); err != nil {
			return nil, err
		}
	}
	results := make([]*gpipe.Result, 1)
	if l.Pipeline.Window > 0 {
		results, err = l.Trainer.Window(ctx, batches)
	} else {
		results[0], err = l.Trainer.Step(ctx, batches[0])
	}
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		steps = append(steps, &TrainStep{Step: done + i + 1, Steps: l.Steps, Result: r, Examples: batches[i].Examples()})
	}
	return steps, nil
}

// batch is the mini-batch of the step at a position.
func (l *Loop) batch(done int) (nn.Batch, error) {
	if l.Source == nil {
		return l.same, nil
	}
	b, err := l.Source.Batch(datasets.Train, done, l.training.Batch)
	if err != nil {
		return b, err
	}
	return l.training.blind(b), nil
}

// blind returns a batch of pairs without its sources, if the training is blind.
func (t *Training) blind(b nn.Batch) nn.Batch {
	if t.EmptySource {
		b.Inputs = slices.Clone(b.Inputs)
		b.Inputs[1].I32 = make([]int32, len(b.Inputs[1].I32)) // their lengths
	}
	return b
}

// Memory returns each device's planned peak and what has been used of it, in bytes.
func (l *Loop) Memory() (peak, high []int64) {
	for k, plan := range l.Trainer.Plans() {
		_, used := l.Trainer.HighWater(k)
		peak, high = append(peak, plan.Peak), append(high, used)
	}
	return peak, high
}

// Parts is the memory of the parts over which stages divide images or operations, after each stage's first,
// and what they copied from each other in the last step, if there was one; nil: there are none.
func (l *Loop) Parts(last *gpipe.Result) *PartBytes {
	var all PartBytes
	for k, plan := range l.Trainer.Plans() {
		var peak, high []int64
		for i, part := range plan.Parts {
			_, used := l.Trainer.PartHighWater(k, i+1)
			peak, high = append(peak, part.Peak), append(high, used)
		}
		if peak == nil {
			return nil
		}
		all.Peak, all.HighWater = append(all.Peak, peak), append(all.HighWater, high)
	}
	if last != nil {
		for _, t := range last.Traffic {
			if t.From != t.To {
				continue
			}
			all.Exchanged += t.Bytes
			if t.What != gpipe.PartRows {
				if all.ByKind == nil {
					all.ByKind = map[string]int64{}
				}
				all.ByKind[t.What.String()] += t.Bytes
			}
		}
	}
	return &all
}

// PartBytes is the memory of parts after the first, planned and used, by device, and what all
// parts copied from each other in a step.
type PartBytes struct {
	Peak      [][]int64 `json:"peak_bytes"`
	HighWater [][]int64 `json:"high_water_bytes"`
	Exchanged int64     `json:"exchanged_bytes,omitempty"` // 0: there was no step
	// ByKind is the same by kind of load, of parts of operations.
	ByKind map[string]int64 `json:"by_kind,omitempty"`
}

// Earlier is how long the training had taken, in seconds, up to the snapshot from which it
// goes on.
func (l *Loop) Earlier() float64 {
	if l.keeper == nil {
		return 0
	}
	return l.keeper.seconds
}

// expect estimates how long some steps will take from forward passes of the first
// mini-batch, which do not change the weights. A backward pass counts as two.
func (l *Loop) expect(ctx context.Context, steps int) (time.Duration, error) {
	batch, err := l.batch(0)
	if err != nil {
		return 0, err
	}
	if l.together() {
		ctx = context.WithoutCancel(ctx)
	}
	var forward time.Duration
	for range 2 { // the first one makes programs and touches memory for the first time
		r, err := l.Trainer.Evaluate(ctx, batch)
		if err != nil {
			return 0, err
		}
		// By the step's own time, which is the same in all processes that run it.
		if forward = time.Duration(r.Seconds * float64(time.Second)); forward > time.Second {
			break
		}
	}
	t := l.training
	evaluations := 1
	if t.EvalEvery > 0 {
		evaluations = (steps + t.EvalEvery - 1) / t.EvalEvery
	}
	statistics := 3 * ((t.RecomputeStatistics + t.Batch - 1) / t.Batch)
	passes := t.Setup.passes()*steps + evaluations*(l.Source.Batches(datasets.HeldOut, t.Batch)+statistics)
	return time.Duration(float64(passes) * float64(forward)), nil
}
