package gpipe

import (
	"math"
	"slices"
	"time"

	"gpipebench/gpipe/schedule"
	"gpipebench/nn/program"
)

// origin is where in a category's region the slot bound to a space begins.
type origin struct {
	category Category
	off      int
	slot     int // of the space; -1: a piece of the workspace
}

// use binds a slot of a space for the next program.
func (r *stageRun) use(s program.Space, slot int) {
	r.bind[s] = r.dev.mem.slot(s, slot)
	r.origins[s] = origin{categoryOf[s], r.dev.mem.plan.slots[s][slot].off, slot}
}

// useWorkspace binds a space to a piece of the workspace.
func (r *stageRun) useWorkspace(s program.Space, off, span int) {
	ws := r.dev.mem.slot(program.Workspace, 0)
	r.bind[s] = ws[off : off+span : off+span]
	r.origins[s] = origin{Workspace, r.dev.mem.plan.slots[program.Workspace][0].off + off, -1}
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

// release gives an inbox slot back to the neighbour that fills it. In tests the slot
// is poisoned first.
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

// pass says whether a micro-batch's forward function has run before in this step.
type pass uint8

const (
	firstTime pass = iota
	again          // a recomputation, or a backward function: no statistics are counted
)

// exec runs a task's program on the bound slots.
func (r *stageRun) exec(p *program.Program, t schedule.Task, what pass) error {
	m := t.Micro
	env := program.Env{
		Seed: r.trainer.net.Seed, Step: uint64(r.trainer.steps + 1),
		Example: uint64(r.firsts[m]), LossScale: float32(1 / float64(r.batch.Count)),
		Again: what != firstTime,
	}
	o := program.Options{
		Touch:  r.touch,
		Poison: r.trainer.net.testing.poison,
		Trap:   r.hunting,
	}
	if watch := r.trainer.net.watch; watch != nil && r.purpose == training {
		last := time.Now()
		o.Ran = func(in *program.Instr) {
			if h := r.trainer.net.testing.inKernel; h != nil {
				h(in)
			}
			watch(KernelRun{r.at, t.Kind, in, time.Since(last).Seconds()})
			last = time.Now()
		}
	}
	return p.Run(r.dev.pool, &r.bind, &env, o)
}

func (r *stageRun) touch(s program.Space, end int) {
	o := r.origins[s]
	high := &r.dev.mem.high[o.category]
	*high = max(*high, o.off+end)
}

// touchAll records tensors that have arrived from outside as used, read or not.
func (r *stageRun) touchAll(places []program.Tensor) {
	for _, p := range places {
		if p.Len > 0 {
			r.touch(p.Space, p.End())
		}
	}
}
