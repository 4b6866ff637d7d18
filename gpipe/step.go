package gpipe

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"
	"unsafe"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// step is one mini-batch on its way through the pipeline.
type step struct {
	trainer  *Trainer
	batch    nn.Batch
	purpose  purpose
	sizes    []int      // examples of each micro-batch
	firsts   []int      // index of its first example
	programs []compiled // of its size
	lists    [][]schedule.Task

	start time.Time
	fail  context.CancelCauseFunc
}

// stageRun is one stage's part of a step. Its goroutines are the one that runs
// the list, and for each neighbour one that receives and one that sends.
type stageRun struct {
	*step
	k    int
	dev  *device
	bind program.Binding
	at   [program.Spaces]place // where the bound slots lie, for the accountant

	input, gradient inbox
	output, back    outbox
	residual        []int // micro-batch that each residual slot holds, or -1
	haveGradient    int   // the last micro-batch whose output gradient has come, or -1

	events  []timeline.Event // of the list's goroutine
	crossed [2][]timeline.Event
	times   *StageTimes
	loss    float64
	correct float64
	norm    float64
	outputs [][]nn.Tensor // by micro-batch
}

// place is where the slot of a space begins.
type place struct {
	category Category
	off      int
}

// inbox is where a neighbour's tensors arrive, micro-batch m in slot m mod the
// number of slots.
type inbox struct {
	slots   int
	credit  chan struct{} // a slot is free
	arrived chan int
}

func newInbox(slots, micro int) inbox {
	in := inbox{slots, make(chan struct{}, slots), make(chan int, micro)}
	for range slots {
		in.credit <- struct{}{}
	}
	return in
}

// outbox holds what is on its way to a neighbour.
type outbox struct {
	slots int
	free  chan struct{}
	ready chan int
}

func newOutbox(slots, micro int) outbox {
	out := outbox{slots, make(chan struct{}, slots), make(chan int, micro)}
	for range slots {
		out.free <- struct{}{}
	}
	return out
}

// run executes the step on all stages and waits until no goroutine is left.
func (s *step) run(parent context.Context) (*Result, error) {
	t := s.trainer
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	s.fail = fail
	if t.alone != nil {
		// Tasks are timed one at a time; the collector must not run beside one.
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
	}
	stages := make([]*stageRun, len(t.devices))
	for k, d := range t.devices {
		stages[k] = newStageRun(s, k, d)
	}
	s.start = time.Now()
	var all sync.WaitGroup
	for _, st := range stages {
		st.launch(ctx, &all)
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, s.explain(context.Cause(ctx))
	}
	return s.result(stages)
}

func newStageRun(s *step, k int, d *device) *stageRun {
	micro := len(s.sizes)
	slots := func(sp program.Space) int { return len(d.mem.plan.slots[sp]) }
	r := &stageRun{
		step: s, k: k, dev: d,
		input:    newInbox(slots(program.In), micro),
		gradient: newInbox(slots(program.DOut), micro),
		output:   newOutbox(slots(program.Out), micro),
		back:     newOutbox(slots(program.DIn), micro),
		residual: make([]int, slots(program.Residual)),
		times:    newStageTimes(micro),

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
	last := len(r.trainer.devices) - 1
	run := func(what string, f func(context.Context) error) {
		all.Go(func() {
			task := what
			defer func() {
				if v := recover(); v != nil {
					err, ok := v.(error)
					if !ok || !isPanicError(err) {
						err = &panicError{v, debug.Stack()}
					}
					r.fail(&StageError{r.k, task, err})
				}
			}()
			if r.trainer.net.testing.panicOnFault {
				debug.SetPanicOnFault(true)
			}
			if err := f(ctx); err != nil && ctx.Err() == nil {
				r.fail(&StageError{r.k, task, err})
			}
		})
	}
	if r.k > 0 {
		run("receive", func(ctx context.Context) error { return r.receive(ctx, Activation, &r.input, r.k-1) })
		if r.purpose == training {
			run("send", func(ctx context.Context) error { return r.send(ctx, Gradient, &r.back, r.k-1) })
		}
	}
	if r.k < last {
		run("send", func(ctx context.Context) error { return r.send(ctx, Activation, &r.output, r.k+1) })
		if r.purpose == training {
			run("receive", func(ctx context.Context) error { return r.receive(ctx, Gradient, &r.gradient, r.k+1) })
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
			cause, ok := v.(error)
			if !ok || !isPanicError(cause) {
				cause = &panicError{v, debug.Stack()}
			}
			err = cause
		}
		if err != nil {
			err = &StageError{r.k, task, err}
		}
	}()
	if r.trainer.net.testing.panicOnFault {
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
	}
	if r.purpose == training {
		task = "update"
		return r.update(ctx)
	}
	return nil
}

func isPanicError(err error) bool {
	_, ok := err.(*program.PanicError)
	return ok
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
	if h := r.trainer.net.testing.inTask; h != nil {
		h(r.k, kind, micro)
	}
	err := f()
	end := time.Now()
	r.events = append(r.events, timeline.Event{
		Device: r.k, Kind: kind, Micro: micro,
		Start: start.Sub(r.start).Seconds(), End: end.Sub(r.start).Seconds(),
	})
	r.times.add(kind, micro, end.Sub(start).Seconds())
	return err
}

func (r *stageRun) task(ctx context.Context, t schedule.Task) error {
	switch t.Kind {
	case schedule.Forward:
		return r.forward(ctx, t)
	case schedule.Recompute:
		return r.recompute(ctx, t)
	}
	return r.backward(ctx, t)
}

func (r *stageRun) isLast() bool { return r.k == len(r.trainer.devices)-1 }

// forward is F(m): input from the previous stage or the batch, output to the
// next stage, or the loss.
func (r *stageRun) forward(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	st := r.stage(m)
	if r.k > 0 {
		if err := await(ctx, r.input.arrived, m); err != nil {
			return err
		}
	} else if err := take(ctx, r.input.credit); err != nil {
		return err
	}
	r.use(program.In, m%r.input.slots)
	r.touchAll(st.In)
	prog := programOf(st, t)
	if t.Keep {
		r.hold(m)
	}
	if !r.isLast() {
		if err := take(ctx, r.output.free); err != nil {
			return err
		}
	}
	if r.isLast() && r.purpose == predicting {
		r.useWorkspace(program.Out, alignUp(prog.Span), st.Span[program.Out])
	} else {
		r.use(program.Out, m%r.output.slots)
	}
	err := r.timed(ctx, timeline.Forward, m, func() error {
		r.load(st, m)
		return r.exec(prog, m, false)
	})
	if err != nil {
		return err
	}
	if r.isLast() {
		err = r.collect(st, m)
	} else {
		r.output.ready <- m
	}
	if r.purpose != training {
		r.release(program.In, m%r.input.slots, &r.input)
	}
	return err
}

// recompute is R(m): the composite forward function again, this time keeping
// the residuals. Its output was sent long ago and is thrown away.
func (r *stageRun) recompute(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	if t.AwaitGrad && !r.isLast() {
		if err := r.awaitGradient(ctx, m); err != nil {
			return err
		}
	}
	r.use(program.In, m%r.input.slots)
	r.hold(m)
	if r.isLast() {
		r.use(program.Out, m%r.output.slots)
	} else {
		r.useWorkspace(program.Out, r.dev.mem.plan.discard, r.stage(m).Span[program.Out])
	}
	return r.timed(ctx, timeline.Recompute, m, func() error { return r.exec(programOf(r.stage(m), t), m, false) })
}

// backward is B(m): output gradient from the next stage, input gradient to the
// previous one, parameter gradients added to the accumulators.
func (r *stageRun) backward(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	if !r.isLast() {
		if err := r.awaitGradient(ctx, m); err != nil {
			return err
		}
		r.use(program.DOut, m%r.gradient.slots)
		r.touchAll(r.stage(m).DOut)
	}
	if r.k > 0 {
		if err := take(ctx, r.back.free); err != nil {
			return err
		}
		r.use(program.DIn, m%r.back.slots)
	}
	r.use(program.In, m%r.input.slots)
	r.use(program.Residual, r.held(m))
	if err := r.timed(ctx, timeline.Backward, m, func() error { return r.exec(programOf(r.stage(m), t), m, false) }); err != nil {
		return err
	}
	r.residual[r.held(m)] = -1
	r.poison(program.Residual)
	r.release(program.In, m%r.input.slots, &r.input)
	if !r.isLast() {
		r.release(program.DOut, m%r.gradient.slots, &r.gradient)
	}
	if r.k > 0 {
		r.back.ready <- m
	}
	return nil
}

// awaitGradient waits for the output gradient of micro-batch m, which a late
// recomputation may have done already.
func (r *stageRun) awaitGradient(ctx context.Context, m int) error {
	if r.haveGradient == m {
		return nil
	}
	r.haveGradient = m
	return await(ctx, r.gradient.arrived, m)
}

// stage is the stage's programs for micro-batch m.
func (r *stageRun) stage(m int) *program.Stage { return r.programs[m][r.k] }

// use binds a slot of a space for the next program.
func (r *stageRun) use(s program.Space, slot int) {
	r.bind[s] = r.dev.mem.slot(s, slot)
	r.at[s] = place{categoryOf[s], r.dev.mem.plan.slots[s][slot].off}
}

// useWorkspace binds a space to a piece of the workspace.
func (r *stageRun) useWorkspace(s program.Space, off, span int) {
	ws := r.dev.mem.slot(program.Workspace, 0)
	r.bind[s] = ws[off : off+span : off+span]
	r.at[s] = place{Workspace, r.dev.mem.plan.slots[program.Workspace][0].off + off}
}

// hold takes a free residual slot for micro-batch m and binds it.
func (r *stageRun) hold(m int) {
	i := slices.Index(r.residual, -1)
	if i < 0 {
		panic("gpipe: more residuals in flight than planned")
	}
	r.residual[i] = m
	r.use(program.Residual, i)
}

func (r *stageRun) held(m int) int { return slices.Index(r.residual, m) }

// release gives an inbox slot back to the neighbour that fills it.
func (r *stageRun) release(s program.Space, slot int, in *inbox) {
	r.use(s, slot)
	r.poison(s)
	in.credit <- struct{}{}
}

func (r *stageRun) poison(s program.Space) {
	if r.trainer.net.testing.poison {
		for i := range r.bind[s] {
			r.bind[s][i] = float32(math.NaN())
		}
	}
}

// exec runs a program on what is bound.
func (r *stageRun) exec(p *program.Program, m int, trap bool) error {
	env := program.Env{
		Seed: r.trainer.net.Seed, Step: uint64(r.trainer.steps + 1),
		Example: uint64(r.firsts[m]), LossScale: float32(1 / float64(r.batch.Count)),
	}
	return p.Run(r.dev.pool, &r.bind, &env, program.Options{
		Touch:  r.touch,
		Poison: r.trainer.net.testing.poison,
		Trap:   trap,
	})
}

func (r *stageRun) touch(s program.Space, end int) {
	at := r.at[s]
	high := &r.dev.mem.high[at.category]
	*high = max(*high, at.off+end)
}

// touchAll notes what has arrived from outside, read or not.
func (r *stageRun) touchAll(places []program.Tensor) {
	for _, p := range places {
		if p.Len > 0 {
			r.touch(p.Space, p.End())
		}
	}
}

// load copies micro-batch m's part of the mini-batch into the bound input slot.
func (r *stageRun) load(st *program.Stage, m int) {
	b := r.batch.Slice(r.firsts[m], r.firsts[m]+r.sizes[m])
	if r.k == 0 {
		r.fill(st.In, b.Inputs)
	}
	r.fill(st.Feeds, b.Targets)
}

func (r *stageRun) fill(places []program.Tensor, tensors []nn.Tensor) {
	for i, p := range places {
		dst := r.bind[program.In][p.Off:p.End()]
		r.touch(program.In, p.End())
		if p.DType == graph.I32 {
			copy(unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)), tensors[i].I32)
		} else {
			copy(dst, tensors[i].F32)
		}
	}
}

// collect takes what the last stage makes of micro-batch m: predictions, or
// losses, which are added up in example order.
func (r *stageRun) collect(st *program.Stage, m int) error {
	out := r.bind[program.Out]
	if r.purpose == predicting {
		r.outputs = append(r.outputs, copies(out, st.Out))
		return nil
	}
	before := r.loss
	for _, v := range out[st.Out[0].Off:st.Out[0].End()] {
		r.loss += float64(v)
	}
	for _, v := range out[st.Out[1].Off:st.Out[1].End()] {
		r.correct += float64(v)
	}
	if !r.trainer.net.AllowNonFinite && (math.IsNaN(r.loss) || math.IsInf(r.loss, 0)) {
		return &lossError{m, float32(r.loss - before)}
	}
	return nil
}

// copies takes tensors out of a slot.
func copies(slot []float32, places []program.Tensor) []nn.Tensor {
	var ts []nn.Tensor
	for _, p := range places {
		ts = append(ts, nn.Tensor{Shape: slices.Clone(p.Shape), F32: slices.Clone(slot[p.Off:p.End()])})
	}
	return ts
}

// lossError stops a step whose loss is not finite; explain finds its origin.
type lossError struct {
	micro int
	value float32
}

func (e *lossError) Error() string { return fmt.Sprintf("the loss is %v", e.value) }

// tensors cuts what crosses an edge out of a slot; tensors without a gradient
// do not cross backwards.
func crossing(slot []float32, places []program.Tensor) [][]float32 {
	var ts [][]float32
	for _, p := range places {
		if p.Len > 0 {
			ts = append(ts, slot[p.Off:p.End()])
		}
	}
	return ts
}

// receive takes in a neighbour's tensors for every micro-batch, in order.
func (r *stageRun) receive(ctx context.Context, what Payload, in *inbox, from int) error {
	for m := range r.sizes {
		if err := take(ctx, in.credit); err != nil {
			return err
		}
		space, places, log := program.In, r.stage(m).In, &r.crossed[0]
		if what == Gradient {
			space, places, log = program.DOut, r.stage(m).DOut, &r.crossed[1]
		}
		dst := crossing(r.dev.mem.slot(space, m%in.slots), places)
		began, err := r.trainer.transport.Receive(ctx, Route{from, r.k, what, m}, dst)
		if err != nil {
			return err
		}
		*log = append(*log, timeline.Event{
			Device: from, Peer: r.k, Kind: timeline.Transfer, Micro: m,
			Start: began.Sub(r.start).Seconds(), End: time.Since(r.start).Seconds(),
			Bytes: bytesOf(dst), Backward: what == Gradient,
		})
		in.arrived <- m
	}
	return nil
}

// send hands out what the list's goroutine has put into an outbox.
func (r *stageRun) send(ctx context.Context, what Payload, out *outbox, to int) error {
	for {
		var m int
		select {
		case next, ok := <-out.ready:
			if !ok {
				return nil
			}
			m = next
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		space, places := program.Out, r.stage(m).Out
		if what == Gradient {
			space, places = program.DIn, r.stage(m).DIn
		}
		slot := r.dev.mem.slot(space, m%out.slots)
		if err := r.trainer.transport.Send(ctx, Route{r.k, to, what, m}, crossing(slot, places)); err != nil {
			return err
		}
		if r.trainer.net.testing.poison {
			for i := range slot {
				slot[i] = float32(math.NaN())
			}
		}
		out.free <- struct{}{}
	}
}

func bytesOf(ts [][]float32) (n int64) {
	for _, t := range ts {
		n += int64(len(t)) * floatBytes
	}
	return n
}

// take waits for a token.
func take(ctx context.Context, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// await waits until micro-batch m has arrived.
func await(ctx context.Context, c chan int, m int) error {
	select {
	case got := <-c:
		if got != m {
			return fmt.Errorf("micro-batch %d arrived where %d was due", got, m)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
