package gpipe

import (
	"context"
	"math"
	"time"

	"gpipebench/gpipe/plan"

	"gpipebench/gpipe/schedule"
	"gpipebench/nn/program"
)

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
		Touch:  r.touch,
		Poison: r.trainer.testing.poison,
		Trap:   r.hunting,
		Meet:   func(m program.Meeting) error { return r.meet(ctx, t, m) },
	}
	var each []time.Duration // of the parts, for the last instruction
	if len(r.parts) > 0 {
		sent := partTraffic{at: r.at}
		o.Parts.Sent = sent.sent
		defer sent.add(&r.received)
		if r.trainer.net.Tensor > 1 {
			o.Parts.Hop = r.hop
		}
		o.Parts.Touch = func(part int, s program.Space, end int) { r.parts[part-1].touch(s, end) }
		for i := range r.parts {
			o.Parts.Memory = append(o.Parts.Memory, &r.parts[i].bind)
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
