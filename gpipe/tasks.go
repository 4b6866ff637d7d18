package gpipe

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// The kinds of task in a device's list. Each is of a chunk.

func (r *chunkRun) task(ctx context.Context, t schedule.Task) error {
	switch t.Kind {
	case schedule.Forward:
		return r.forward(ctx, t)
	case schedule.Recompute:
		return r.recompute(ctx, t)
	case schedule.BackwardWeights:
		return r.weightGradients(ctx, t)
	}
	return r.backward(ctx, t)
}

func (r *chunkRun) isLast() bool { return r.piece == r.trainer.net.Pieces.Len()-1 }

// forward is F(m): input from the previous stage or the batch, output to the
// next stage, or the loss.
func (r *chunkRun) forward(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	st := r.stage(m)
	if r.piece > 0 {
		if err := await(ctx, r.input.arrived, m); err != nil {
			return err
		}
	} else if err := take(ctx, r.input.credit); err != nil {
		return err
	}
	r.use(program.In, m%r.input.slots)
	r.touchAll(st.In)
	r.useStatistics(m)
	prog := plan.ProgramOf(st, t)
	if t.Keep {
		r.hold(m)
	}
	if !r.isLast() {
		if err := take(ctx, r.output.free); err != nil {
			return err
		}
	}
	if r.isLast() && r.purpose == plan.Predicting {
		r.useWorkspace(program.Out, plan.PredictionOffset(st), st.Span[program.Out])
	} else {
		r.use(program.Out, m%r.output.slots)
	}
	err := r.timed(ctx, timeline.Forward, m, func() error {
		r.load(st, m)
		err := r.exec(ctx, prog, t, firstTime)
		r.keepTallies(m)
		return err
	})
	if err != nil {
		return err
	}
	if r.isLast() {
		err = r.collect(st, m)
	} else {
		r.output.ready <- m
	}
	if r.purpose != plan.Training {
		r.release(program.In, m%r.input.slots, &r.input)
	}
	return err
}

// recompute is R(m): the composite forward function again, this time keeping the
// residuals. Its output has been sent after F(m) and is thrown away.
func (r *chunkRun) recompute(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	if t.AwaitGrad && !r.isLast() {
		if err := r.awaitGradient(ctx, m); err != nil {
			return err
		}
	}
	r.use(program.In, m%r.input.slots)
	r.useStatistics(m)
	r.hold(m)
	if r.isLast() {
		r.use(program.Out, m%r.output.slots)
	} else {
		r.useWorkspace(program.Out, r.dev.mem.plan.Discard, r.stage(m).Span[program.Out])
	}
	return r.timed(ctx, timeline.Recompute, m, func() error { return r.exec(ctx, plan.ProgramOf(r.stage(m), t), t, again) })
}

// backward is B(m): output gradient from the next stage, input gradient to the
// previous one, parameter gradients added to the accumulators. Or it is I(m), which
// leaves some of the latter to W(m).
func (r *chunkRun) backward(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	if !r.isLast() {
		if err := r.awaitGradient(ctx, m); err != nil {
			return err
		}
		r.use(program.DOut, m%r.gradient.slots)
		r.touchAll(r.stage(m).DOut)
	}
	if r.piece > 0 {
		if err := take(ctx, r.back.free); err != nil {
			return err
		}
		r.use(program.DIn, m%r.back.slots)
	}
	r.use(program.In, m%r.input.slots)
	r.use(program.Residual, r.residual.Of(m))
	kind := timeline.Backward
	if r.splits() {
		r.use(program.Lasting, r.lasting.Of(m))
	}
	if t.Kind == schedule.BackwardInput {
		kind = timeline.BackwardInput
		r.use(program.Between, r.between.Take(m))
	}
	r.useStatistics(m)
	if err := r.timed(ctx, kind, m, func() error { return r.exec(ctx, plan.ProgramOf(r.stage(m), t), t, again) }); err != nil {
		return err
	}
	r.residual.Free(m)
	r.poison(program.Residual)
	if r.splits() && t.Kind == schedule.Backward {
		r.lasting.Free(m)
		r.poison(program.Lasting)
	}
	r.poison(program.Statistics)
	r.release(program.In, m%r.input.slots, &r.input)
	if !r.isLast() {
		r.release(program.DOut, m%r.gradient.slots, &r.gradient)
	}
	if r.piece > 0 {
		r.back.ready <- m
	}
	return nil
}

// weightGradients is W(m): the parameter gradients that I(m) has left, added to the
// accumulators. It waits for nothing and sends nothing.
func (r *chunkRun) weightGradients(ctx context.Context, t schedule.Task) error {
	m := t.Micro
	r.use(program.Lasting, r.lasting.Of(m))
	r.use(program.Between, r.between.Of(m))
	if err := r.timed(ctx, timeline.BackwardWeights, m, func() error { return r.exec(ctx, plan.ProgramOf(r.stage(m), t), t, again) }); err != nil {
		return err
	}
	r.lasting.Free(m)
	r.between.Free(m)
	r.poison(program.Lasting)
	r.poison(program.Between)
	return nil
}

// awaitGradient waits for the output gradient of micro-batch m, unless a late
// recomputation has done so already.
func (r *chunkRun) awaitGradient(ctx context.Context, m int) error {
	if r.haveGradient == m {
		return nil
	}
	r.haveGradient = m
	return await(ctx, r.gradient.arrived, m)
}

// timed runs f as one event of the chunk, alone if the devices are emulated.
func (r *chunkRun) timed(ctx context.Context, kind timeline.Kind, micro int, f func() error) error {
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
	r.began, r.away, r.turns, r.meetings = start, 0, 0, nil
	if h := r.trainer.testing.inTask; h != nil {
		h(r.at, kind, micro)
	}
	err := f()
	end := time.Now()
	r.record(r.at, kind, micro, start, end)
	r.events[len(r.events)-1].Away = r.away.Seconds()
	seconds := (end.Sub(start) - r.away - r.turns).Seconds()
	r.times.add(kind, micro, seconds)
	r.times.meet(kind, micro, r.meetings, seconds)
	return err
}

// timed runs f, which is not a task, as one event.
func (r *stageRun) timed(ctx context.Context, kind timeline.Kind, micro int, f func() error) error {
	return r.chunks[0].timed(ctx, kind, micro, f)
}

// timedWork times f, a part of the step between its tasks and its barrier, which
// counts on the virtual clock and has no event.
func (r *stageRun) timedWork(ctx context.Context, kind timeline.Kind, f func()) error {
	events := len(r.events)
	err := r.timed(ctx, kind, -1, func() error { f(); return nil })
	r.events = r.events[:min(events, len(r.events))]
	return err
}

// record adds an event of the list's goroutine.
func (r *stageRun) record(at place.Place, kind timeline.Kind, micro int, start, end time.Time) {
	r.events = append(r.events, timeline.Event{At: at, Kind: kind, Micro: micro, Start: start.Sub(r.start).Seconds(), End: end.Sub(r.start).Seconds()})
}

// stage returns the stage's programs for micro-batch m.
func (r *chunkRun) stage(m int) *program.Stage { return r.Programs[m][r.piece] }

// origin is where in a category's region the slot bound to a space begins.
type origin struct {
	category Category
	off      int
	slot     int // of the space; -1: a piece of the workspace
}

// bound is the memory of a device, or of one of its parts, as programs see it.
type bound struct {
	mem     *memory
	bind    program.Binding
	origins [program.Spaces]origin // where the bound slots lie, to record what is used
	high    [program.Spaces]int    // how far the program that runs has reached into them
}

func (b *bound) use(chunk int, s program.Space, slot int) {
	b.bind[s] = b.mem.slot(chunk, s, slot)
	b.origins[s] = origin{plan.CategoryOf[s], b.mem.plan.Chunks[chunk][s][slot].Off, slot}
}

func (b *bound) touch(s program.Space, end int) {
	o := b.origins[s]
	high := &b.mem.high[o.category]
	*high = max(*high, o.off+end)
}

// touchHigh records what a program has used.
func (b *bound) touchHigh() {
	for s, end := range b.high {
		if end > 0 {
			b.touch(program.Space(s), end)
		}
	}
	clear(b.high[:])
}

// use binds a slot of a space for the next program, of all parts that have the space.
func (r *chunkRun) use(s program.Space, slot int) {
	chunk := r.at.Chunk
	if s == program.Workspace {
		chunk = 0
	}
	r.bound.use(chunk, s, slot)
	for i := range r.parts {
		if slot < len(r.parts[i].mem.plan.Chunks[chunk][s]) {
			r.parts[i].use(chunk, s, slot)
		}
	}
}

// useWorkspace binds a space to a piece of the workspace.
func (r *chunkRun) useWorkspace(s program.Space, off, span int) {
	ws := r.dev.mem.slot(0, program.Workspace, 0)
	r.bind[s] = ws[off : off+span : off+span]
	r.origins[s] = origin{Workspace, r.dev.mem.plan.Chunks[0][program.Workspace][0].Off + off, -1}
}

// useStatistics binds the place where a micro-batch keeps the statistics of all replicas
// from its F to its B or I.
func (r *chunkRun) useStatistics(m int) {
	if slots := len(r.dev.mem.plan.Chunks[r.at.Chunk][program.Statistics]); slots > 0 {
		r.use(program.Statistics, m%slots)
	}
}

// hold takes free residual slots for micro-batch m and binds them.
func (r *chunkRun) hold(m int) {
	r.use(program.Residual, r.residual.Take(m))
	if r.splits() {
		r.use(program.Lasting, r.lasting.Take(m))
	}
}

// splits reports whether the lists have I and W.
func (r *chunkRun) splits() bool { return len(r.lasting) > 0 }

// release gives an inbox slot back to the neighbour that fills it. In tests the slot
// is poisoned first.
func (r *chunkRun) release(s program.Space, slot int, in *inbox) {
	r.use(s, slot)
	r.poison(s)
	in.credit <- struct{}{}
}

func (r *chunkRun) poison(s program.Space) {
	if r.trainer.testing.poison {
		for i := range r.bind[s] {
			r.bind[s][i] = float32(math.NaN())
		}
		for _, part := range r.parts {
			for i := range part.bind[s] {
				part.bind[s][i] = float32(math.NaN())
			}
		}
	}
}

// pass says whether a micro-batch's forward function has run before in this step.
type pass uint8

const (
	firstTime pass = iota
	again          // a recomputation, or a backward function: no statistics are counted
)

// exec runs a task's program on the bound slots.
func (r *chunkRun) exec(ctx context.Context, p *program.Program, t schedule.Task, what pass) error {
	m := t.Micro
	mini := r.mini(m)
	env := program.Env{
		Seed: r.trainer.net.Seed, Step: uint64(r.number(mini)),
		Example: uint64(r.Firsts[m]), LossScale: float32(1 / float64(r.batches[mini].Count)),
		Again: what != firstTime, Fresh: r.fresh && t.Accumulates(),
	}
	r.fresh = r.fresh && !t.Accumulates()
	o := program.Options{
		High:   &r.high,
		Poison: r.trainer.testing.poison,
		Trap:   r.hunting,
		Meet:   func(m program.Meeting) error { return r.meet(ctx, t, m) },
	}
	defer func() { // also if it fails
		r.touchHigh()
		for i := range r.parts {
			r.parts[i].touchHigh()
		}
	}()
	var each []time.Duration // of the parts, for the last instruction
	if len(r.parts) > 0 {
		sent := partTraffic{at: r.at}
		o.Parts.Sent = sent.sent
		defer sent.add(&r.received)
		if r.trainer.net.Tensor > 1 {
			o.Parts.Hop = r.hop
		}
		for i := range r.parts {
			o.Parts.Memory, o.Parts.High = append(o.Parts.Memory, &r.parts[i].bind), append(o.Parts.High, &r.parts[i].high)
		}
		if r.trainer.alone != nil {
			o.Parts.Alone = func(_ *program.Instr, took []time.Duration, longer time.Duration) {
				r.turns += longer
				each = took
			}
		}
	}
	if len(r.tables) > 0 {
		o.Rows = func(g program.RowGradient) bool { return r.keepRows(m, g) }
	}
	if watch := r.trainer.watch; watch != nil && r.purpose == plan.Training {
		last, away, turns := time.Now(), r.away, r.turns
		o.Ran = func(in *program.Instr) {
			if h := r.trainer.testing.inKernel; h != nil {
				h(in)
			}
			run := KernelRun{At: r.at, Task: t.Kind, Instr: in, Seconds: (time.Since(last) - (r.away - away) - (r.turns - turns)).Seconds()}
			for _, took := range each {
				run.Parts = append(run.Parts, took.Seconds())
			}
			watch(run)
			last, away, turns = time.Now(), r.away, r.turns
		}
	}
	return p.Run(r.dev.tasks, &r.bind, &env, o)
}

// touchAll records tensors that have arrived from outside as used, read or not.
func (r *chunkRun) touchAll(places []program.Tensor) {
	for _, p := range places {
		if p.Len > 0 {
			r.touch(p.Space, p.End())
		}
	}
}

// load copies micro-batch m's part of the mini-batch into the bound input slot.
func (r *chunkRun) load(st *program.Stage, m int) {
	b := r.batches[r.mini(m)].Slice(r.Firsts[m], r.Firsts[m]+r.Sizes[m])
	if r.piece == 0 {
		r.fill(st.In, b.Inputs)
	}
	r.fill(st.Feeds, b.Targets)
}

func (r *chunkRun) fill(places []program.Tensor, tensors []nn.Tensor) {
	for i, p := range places {
		r.touch(program.In, p.End())
		if p.DType == graph.I32 {
			dst := r.bind[program.In][p.Off:p.End()]
			copy(unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)), tensors[i].I32)
		} else {
			p.Fill(r.bind[program.In], tensors[i].F32)
		}
	}
}

// score is what the last stage's outputs say of a group's examples.
type score struct {
	Loss    float64 // the sum
	Correct float64
	Ranks   []float32
}

// collect takes the last stage's outputs for micro-batch m: predictions, or losses,
// which are added up in example order within each group.
func (r *chunkRun) collect(st *program.Stage, m int) error {
	out := r.bind[program.Out]
	if r.purpose == plan.Predicting {
		made := views(out, st.Out)
		if len(r.trainer.peers) == 1 {
			r.predicted.Lock() // by one replica at a time
			defer r.predicted.Unlock()
			return r.each(r.Firsts[m], made)
		}
		for i := range made { // to be reported
			made[i].F32 = slices.Clone(made[i].F32)
		}
		r.outputs = append(r.outputs, made)
		return nil
	}
	rows := st.Out[0].Floats(out)
	score := &r.scores[r.GroupOf(m)]
	before := score.Loss
	for _, v := range rows {
		score.Loss += float64(v)
	}
	if r.purpose == plan.Evaluating && r.trainer.net.Replicas > 1 {
		r.rows = append(r.rows, rows...) // to be added up in example order over all replicas
	}
	if len(st.Out) > 1 {
		for _, v := range st.Out[1].Floats(out) {
			score.Correct += float64(v)
		}
	}
	if len(st.Out) > 2 {
		score.Ranks = append(score.Ranks, st.Out[2].Floats(out)...)
	}
	if !r.trainer.net.AllowNonFinite && (math.IsNaN(score.Loss) || math.IsInf(score.Loss, 0)) {
		return &lossError{r.at.Replica, m, float32(score.Loss - before)}
	}
	return nil
}

// views are the tensors in a slot; those of bfloat16 are copies.
func views(slot []float32, places []program.Tensor) []nn.Tensor {
	var ts []nn.Tensor
	for _, p := range places {
		ts = append(ts, nn.Tensor{Shape: slices.Clone(p.Shape), F32: p.Floats(slot)})
	}
	return ts
}

// lossError stops a step whose loss is not finite; explain finds its origin.
type lossError struct {
	Replica, Micro int
	Value          float32
}

func (e *lossError) Error() string { return fmt.Sprintf("the loss is %v", e.Value) }
