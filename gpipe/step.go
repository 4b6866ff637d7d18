package gpipe

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/failure"
	"gpipebench/internal/kernel"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// step is one mini-batch on its way through the pipeline, or a window of an asynchronous schedule.
type step struct {
	trainer   *Trainer
	batches   []nn.Batch // one, or the window's
	purpose   plan.Purpose
	each      func(first int, outputs []nn.Tensor) error // called with a prediction's outputs
	predicted *sync.Mutex                                // held while each runs
	hunting   bool                                       // the first value that is not finite ends it
	still     bool                                       // a training step without its update
	portions  []plan.Portion                             // of each replica
	tables    []plan.TableRows                           // of the gradients that are gathered

	session transport.Session
	start   time.Time
	fail    func(error) // ends the step on all stages, with the first of these errors
}

// stageRun is one device's part of a step. One goroutine runs its list and the update.
type stageRun struct {
	*step
	*plan.Portion             // its replica's
	at            place.Place // of its first chunk
	k             int         // the device's number in its replica
	dev           *device
	chunks        []*chunkRun

	group int             // how many of the replica's groups have been added up
	added int             // how many tasks have added to gradients
	sums  reduction.Stack // of the groups

	events   []timeline.Event // of the list's goroutine
	recorded recorded
	received traffic
	times    *StageTimes // of the first chunk; what is not a chunk's is there
	// Of the task that runs: when it began, how long it has been at meetings since, and
	// these; met counts all of the step.
	began    time.Time
	away     time.Duration
	turns    time.Duration // by how much its parts took longer since each ran alone
	meetings []clock.Meeting
	met      int

	scores      []score   // of each group
	rows        []float32 // the losses themselves, of an evaluation by several replicas
	norm        float64
	ownNorms    []float64     // of the device's gradients alone, by mini-batch of a window
	tensorNorms []nn.Norms    // of each parameter whose norms the optimiser reads
	outputs     [][]nn.Tensor // by micro-batch, for other processes
}

// chunkRun is one of a device's pieces of the network in a step. For each neighbour it has
// a goroutine that receives and one that sends; its tasks run on the device's.
type chunkRun struct {
	*stageRun
	at    place.Place
	piece int // of the network, from 0
	bound
	parts []bound // of the stage after the first

	input, gradient inbox
	output, back    outbox
	// residual are the slots of residuals. Invariants: a micro-batch holds one, from the F
	// that keeps or the R to the end of its B or I, and none before and after; the plan has
	// as many as the list has in flight. If the list has I and W, lasting are the same from
	// there to the end of W, or of B, and between those from I to the end of W.
	residual, lasting, between plan.Holders
	// haveGradient is the last micro-batch whose output gradient the list has waited
	// for, or -1. It only ascends, and the gradient's slot is occupied until B's end.
	haveGradient int
	fresh        bool // nothing has been added to the accumulators yet: see program.Env.Fresh

	crossed [2][]timeline.Event
	times   *StageTimes
}

// run executes the step on all stages and waits until no goroutine is left. It returns a result
// for each mini-batch.
func (s *step) run(parent context.Context) ([]*Result, error) {
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
		for _, c := range st.chunks {
			c.connect(ctx, &all)
		}
		all.Go(func() {
			if err := st.work(ctx); err != nil && ctx.Err() == nil {
				s.fail(err)
			}
		})
	}
	all.Wait()
	var own []report
	for _, st := range stages {
		own = append(own, st.reports()...)
	}
	t.note(own)
	if ctx.Err() == nil {
		reports, err := share(ctx, t, session, own)
		if err == nil {
			return s.results(slices.Concat(reports...))
		}
		s.fail(err)
	}
	session.Abort(context.Cause(ctx))
	return nil, s.explain(parent, context.Cause(ctx))
}

// mini is the place, among the step's mini-batches, of the one that a micro-batch is part of.
func (r *stageRun) mini(micro int) int {
	if len(r.batches) == 1 {
		return 0
	}
	return r.GroupOf(micro)
}

// number is the number of a mini-batch's update, from 1; mini is its place in the step.
func (s *step) number(mini int) int { return s.trainer.steps + 1 + mini }

func newStageRun(s *step, d *device) *stageRun {
	of := &s.portions[d.at.Replica]
	r := &stageRun{step: s, Portion: of, at: d.at, k: d.k, dev: d, scores: make([]score, len(of.Ends))}
	for c, piece := range s.trainer.net.Pieces.On(d.k) {
		r.chunks = append(r.chunks, newChunkRun(r, c, piece))
	}
	r.times = r.chunks[0].times
	return r
}

// hasUpdates reports whether the step's lists have U.
func (r *stageRun) hasUpdates() bool {
	return r.purpose == plan.Training && r.trainer.net.Asynchronous()
}

func newChunkRun(s *stageRun, chunk, piece int) *chunkRun {
	micro := len(s.Sizes)
	slots := func(sp program.Space) int { return len(s.dev.mem.plan.Chunks[chunk][sp]) }
	r := &chunkRun{
		stageRun: s, at: s.pieceAt(piece), piece: piece,
		input:    newInbox(slots(program.In), micro),
		gradient: newInbox(slots(program.DOut), micro),
		output:   newOutbox(slots(program.Out), micro),
		back:     newOutbox(slots(program.DIn), micro),
		residual: plan.NewHolders(slots(program.Residual)),
		lasting:  plan.NewHolders(slots(program.Lasting)),
		between:  plan.NewHolders(slots(program.Between)),
		times:    newStageTimes(micro),
		bound:    bound{mem: s.dev.mem},

		haveGradient: -1,
	}
	for _, mem := range s.dev.parts {
		r.parts = append(r.parts, bound{mem: mem})
	}
	r.use(program.Params, 0)
	r.use(program.Grads, 0)
	r.use(program.Workspace, 0)
	return r
}

// connect starts the goroutines that receive from the chunk's neighbours and send to them.
func (r *chunkRun) connect(ctx context.Context, all *sync.WaitGroup) {
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
	if r.piece > 0 {
		run("receive", func(ctx context.Context) error { return r.receive(ctx, transport.Activation, &r.input, r.piece-1) })
		if r.purpose == plan.Training {
			run("send", func(ctx context.Context) error { return r.send(ctx, transport.Gradient, &r.back, r.piece-1) })
		}
	}
	if !r.isLast() {
		run("send", func(ctx context.Context) error { return r.send(ctx, transport.Activation, &r.output, r.piece+1) })
		if r.purpose == plan.Training {
			run("receive", func(ctx context.Context) error { return r.receive(ctx, transport.Gradient, &r.gradient, r.piece+1) })
		}
	}
}

// work runs the device's list and the update.
func (r *stageRun) work(ctx context.Context) (err error) {
	task, at := "setup", r.at
	defer func() {
		if v := recover(); v != nil {
			where := r.where(task)
			err = r.panicked(v, where)
			if _, defective := err.(*failure.Defect); defective && where != task { // perhaps in a caller's operation
				err = fmt.Errorf("layer %s: %w", where, err)
			}
		}
		if err != nil {
			err = &StageError{at, task, err}
		}
	}()
	defer func() {
		for _, c := range r.chunks {
			close(c.output.ready)
			close(c.back.ready)
		}
	}()
	if r.panicOnFault() {
		for _, pool := range []*program.Pool{r.dev.pool, r.dev.tasks} {
			pool.Do(func(int) { debug.SetPanicOnFault(true) }) // a property of each goroutine
		}
	}
	if r.purpose == plan.Training {
		if err := r.timed(ctx, timeline.Setup, -1, r.zeroGradients); err != nil {
			return err
		}
	} else {
		r.dev.handOut()
	}
	if r.hasUpdates() {
		return r.workThrough(ctx, &task)
	}
	for _, tk := range r.Lists[r.k] {
		task, at = schedule.Task{Kind: tk.Kind, Micro: tk.Micro}.String(), r.chunks[tk.Chunk].at
		if err := r.chunks[tk.Chunk].task(ctx, tk); err != nil {
			return err
		}
		if !tk.Accumulates() {
			continue
		}
		r.added++
		for r.group < len(r.Ends)-1 && r.added == len(r.chunks)*r.Ends[r.group] {
			if err := r.endGroup(ctx); err != nil {
				return err
			}
		}
	}
	at = r.at
	if r.purpose == plan.Training {
		task = "update"
		return r.update(ctx)
	}
	return nil
}

// zeroGradients is the setup of a step. What the first backward function starts from zero itself
// is not cleared.
func (r *stageRun) zeroGradients() error {
	r.dev.handOut()
	parts := r.dev.pool.Threads()
	for c, chunk := range r.chunks {
		grads := r.dev.mem.slot(c, program.Grads, 0)
		clear := []program.Operand{{Space: program.Grads, Len: len(grads)}}
		if chunk.fresh = len(chunk.parts) == 0 && !r.hasUpdates() && r.Ends[0] > 0; chunk.fresh {
			chunk.poison(program.Grads)
			clear = chunk.stage(0).Clear
		}
		r.dev.pool.Do(func(part int) {
			for _, o := range clear {
				kernel.Zero(grads[o.Off+o.Len*part/parts : o.Off+o.Len*(part+1)/parts])
			}
		})
		r.dev.mem.touch(c, program.Grads, 0, len(grads))
	}
	if r.trainer.net.Tensor > 1 {
		r.onThreads(func(part, thread, threads int) {
			for c := range r.chunks {
				if mem := r.dev.memory(part); part > 0 {
					grads := mem.slot(c, program.Grads, 0)
					kernel.Zero(grads[len(grads)*thread/threads : len(grads)*(thread+1)/threads])
					if thread == 0 {
						mem.touch(c, program.Grads, 0, len(grads))
					}
				}
			}
		})
	}
	return nil
}

func (r *stageRun) panicOnFault() bool {
	return r.trainer.testing.panicOnFault || r.trainer.net.Devices[r.k].Overcommit
}

// panicked turns the panic value of a stage's goroutine into an error: the device's
// capacity was exceeded, or there is a defect. where is the layer or task that ran.
func (r *stageRun) panicked(v any, where string) error {
	if err := r.overrun(v, where); err != nil {
		return err
	}
	return failure.Recovered(v)
}
