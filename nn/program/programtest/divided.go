package programtest

import (
	"math"

	"gpipebench/nn/program"
)

// Part is the memory of one part of a divided stage beside the first: one slice per space,
// exactly as long as planned, between guards that every run checks.
type Part struct {
	Memory program.Binding
	High   [program.Spaces]int // floats, the furthest that anything has reached
	guards [program.Spaces][]float32
}

// Divide returns a runner of the stage divided over parts, with memory of its own and the
// same parameters; each part has a copy.
func (r *Runner) Divide(parts int) *Runner {
	r.t.Helper()
	return r.DivideWithin(parts, nil)
}

// DivideWithin is Divide for programs that keep within those of a larger stage.
func (r *Runner) DivideWithin(parts int, room *program.Stage) *Runner {
	r.t.Helper()
	threads := r.pool.Threads()
	stage, err := r.Stage.Divide(parts, room)
	if err != nil {
		r.t.Fatal(err)
	}
	params := r.memory[program.Params]
	divided := bind(r.t, r.Function, stage, threads*parts)
	copy(divided.memory[program.Params], params)
	divided.Env, divided.Options = r.Env, r.Options
	for _, st := range stage.Parts {
		p := &Part{}
		p.Memory, p.guards = guarded(st)
		divided.Parts = append(divided.Parts, p)
		copy(p.Memory[program.Params], params)
		divided.Options.Parts.Memory = append(divided.Options.Parts.Memory, &p.Memory)
		divided.Options.Parts.High = append(divided.Options.Parts.High, &p.High)
	}
	divided.Options.High = &divided.High
	return divided
}

// InBlocks returns a runner of the stage on one part, whose sums that parts could divide are made of a sum for each
// of a number of blocks, with memory of its own and the same parameters.
func (r *Runner) InBlocks(blocks int) *Runner {
	split := bind(r.t, r.Function, r.Stage.Split(1, blocks, nil), r.pool.Threads())
	copy(split.memory[program.Params], r.memory[program.Params])
	split.Env, split.Options = r.Env, r.Options
	return split
}

// guarded makes the memory of a stage, with guards around each space.
func guarded(s *program.Stage) (memory program.Binding, guards [program.Spaces][]float32) {
	for space, span := range s.Span {
		all := make([]float32, guard+span+guard)
		for i := range all {
			all[i] = math.Float32frombits(guardBits)
		}
		guards[space] = all
		memory[space] = all[guard : guard+span : guard+span]
	}
	clear(memory[program.Grads])
	return memory, guards
}
