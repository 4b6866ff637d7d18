package gpipe

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/defect"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// step is one mini-batch on its way through the pipeline.
type step struct {
	trainer   *Trainer
	batch     nn.Batch
	purpose   purpose
	each      func(first int, outputs []nn.Tensor) error // called with a prediction's outputs
	predicted *sync.Mutex                                // held while each runs
	hunting   bool                                       // the first value that is not finite ends it
	still     bool                                       // a training step without its update
	portions  []portion                                  // of each replica

	session transport.Session
	start   time.Time
	fail    func(error) // ends the step on all stages, with the first of these errors
}

// stageRun is one stage's part of a step. Its goroutines are the one that runs
// the list, and for each neighbour one that receives and one that sends.
type stageRun struct {
	*step
	*portion // its replica's
	at       place.Place
	k        int // its stage
	dev      *device
	bind     program.Binding
	origins  [program.Spaces]origin // where the bound slots lie, to record what is used

	input, gradient inbox
	output, back    outbox
	// residual is the micro-batch that each residual slot holds, or -1. Invariants: a
	// micro-batch holds one slot, from the F that keeps or the R to the end of its B,
	// and none before and after; the plan has as many as the list has in flight.
	residual []int
	// haveGradient is the last micro-batch whose output gradient the list has waited
	// for, or -1. It only ascends, and the gradient's slot is occupied until B's end.
	haveGradient int
	group        int             // how many of the replica's groups have been added up
	sums         reduction.Stack // their sums

	events  []timeline.Event // of the list's goroutine
	crossed [2][]timeline.Event
	times   *StageTimes
	losses  []float64 // their sum in each group
	rows    []float32 // the losses themselves, of an evaluation by several replicas
	correct float64
	ranks   []float32
	norm    float64
	outputs [][]nn.Tensor // by micro-batch, for other processes
}

// run executes the step on all stages and waits until no goroutine is left.
func (s *step) run(parent context.Context) (*Result, error) {
	t := s.trainer
	session := t.transport.Begin()
	defer session.End()
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	s.session = session
	s.fail = func(err error) {
		cancel(err)
		session.Abort(err)
	}
	if t.alone != nil {
		defer pauseCollector()() // tasks are timed one at a time, and nothing else may run meanwhile
	}
	stages := make([]*stageRun, len(t.devices))
	for i, d := range t.devices {
		stages[i] = newStageRun(s, d)
	}
	s.start = time.Now()
	var all sync.WaitGroup
	for _, st := range stages {
		st.launch(ctx, &all)
	}
	all.Wait()
	own := make([]report, len(stages))
	for i, st := range stages {
		own[i] = st.report()
	}
	t.note(own)
	if ctx.Err() == nil {
		reports, err := share(ctx, t, session, own)
		if err == nil {
			return s.result(slices.Concat(reports...))
		}
		s.fail(err)
	}
	session.Abort(context.Cause(ctx))
	return nil, s.explain(parent, context.Cause(ctx))
}

func newStageRun(s *step, d *device) *stageRun {
	of := &s.portions[d.at.Replica]
	micro := len(of.sizes)
	slots := func(sp program.Space) int { return len(d.mem.plan.slots[sp]) }
	r := &stageRun{
		step: s, portion: of, at: d.at, k: d.k, dev: d,
		input:    newInbox(slots(program.In), micro),
		gradient: newInbox(slots(program.DOut), micro),
		output:   newOutbox(slots(program.Out), micro),
		back:     newOutbox(slots(program.DIn), micro),
		residual: make([]int, slots(program.Residual)),
		times:    newStageTimes(micro),
		losses:   make([]float64, len(of.ends)),

		haveGradient: -1,
	}
	for i := range r.residual {
		r.residual[i] = -1
	}
	r.use(program.Params, 0)
	r.use(program.Grads, 0)
	r.use(program.Workspace, 0)
	return r
}

// launch starts the stage's goroutines.
func (r *stageRun) launch(ctx context.Context, all *sync.WaitGroup) {
	last := r.trainer.net.Partitions - 1
	run := func(what string, f func(context.Context) error) {
		all.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					r.fail(&StageError{r.at, what, r.panicked(v, what)})
				}
			}()
			if r.panicOnFault() {
				debug.SetPanicOnFault(true)
			}
			if err := f(ctx); err != nil && ctx.Err() == nil {
				r.fail(&StageError{r.at, what, err})
			}
		})
	}
	if r.k > 0 {
		run("receive", func(ctx context.Context) error { return r.receive(ctx, transport.Activation, &r.input, r.k-1) })
		if r.purpose == training {
			run("send", func(ctx context.Context) error { return r.send(ctx, transport.Gradient, &r.back, r.k-1) })
		}
	}
	if r.k < last {
		run("send", func(ctx context.Context) error { return r.send(ctx, transport.Activation, &r.output, r.k+1) })
		if r.purpose == training {
			run("receive", func(ctx context.Context) error { return r.receive(ctx, transport.Gradient, &r.gradient, r.k+1) })
		}
	}
	all.Go(func() {
		if err := r.work(ctx); err != nil && ctx.Err() == nil {
			r.fail(err)
		}
	})
}

// work runs the stage's list and the update.
func (r *stageRun) work(ctx context.Context) (err error) {
	task := "setup"
	defer func() {
		if v := recover(); v != nil {
			where := r.where(task)
			err = r.panicked(v, where)
			if _, defective := err.(*defect.Error); defective && where != task { // perhaps in a caller's operation
				err = fmt.Errorf("layer %s: %w", where, err)
			}
		}
		if err != nil {
			err = &StageError{r.at, task, err}
		}
	}()
	if r.panicOnFault() {
		r.dev.pool.Do(func(int) { debug.SetPanicOnFault(true) }) // a property of each goroutine
	}
	defer close(r.output.ready)
	defer close(r.back.ready)
	if r.purpose == training {
		if err := r.timed(ctx, timeline.Setup, -1, r.zeroGradients); err != nil {
			return err
		}
	}
	for _, tk := range r.lists[r.k] {
		task = tk.String()
		if err := r.task(ctx, tk); err != nil {
			return err
		}
		for tk.Kind == schedule.Backward && r.group < len(r.ends)-1 && r.ends[r.group] == tk.Micro+1 {
			if err := r.endGroup(ctx); err != nil {
				return err
			}
		}
	}
	if r.purpose == training {
		task = "update"
		return r.update(ctx)
	}
	return nil
}

func (r *stageRun) panicOnFault() bool {
	return r.trainer.net.testing.panicOnFault || r.trainer.net.Devices[r.k].Overcommit
}

// panicked turns the panic value of a stage's goroutine into an error: the device's
// capacity was exceeded, or there is a defect. where is the layer or task that ran.
func (r *stageRun) panicked(v any, where string) error {
	if err := r.overrun(v, where); err != nil {
		return err
	}
	return defect.Recovered(v)
}

// timed runs f as one event, alone if the devices are emulated.
func (r *stageRun) timed(ctx context.Context, kind timeline.Kind, micro int, f func() error) error {
	if a := r.trainer.alone; a != nil {
		select {
		case a <- struct{}{}:
			defer func() { <-a }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	} else if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	start := time.Now()
	if h := r.trainer.net.testing.bound; h != nil {
		h(r, kind, micro)
	}
	if h := r.trainer.net.testing.inTask; h != nil {
		h(r.k, kind, micro)
	}
	err := f()
	end := time.Now()
	r.events = append(r.events, timeline.Event{
		At: r.at, Kind: kind, Micro: micro,
		Start: start.Sub(r.start).Seconds(), End: end.Sub(r.start).Seconds(),
	})
	r.times.add(kind, micro, end.Sub(start).Seconds())
	return err
}
