// Package programtest compiles traced functions and runs them on plain slices,
// for tests of ops, layers and whole models.
package programtest

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"gpipebench/nn/program"
)

// Runner is a compiled stage with its own memory: one slice per space, exactly
// as long as planned, between guards that every run checks.
type Runner struct {
	Function program.Function
	Stage    *program.Stage

	Env     program.Env
	Options program.Options // Poison is initially on

	// Of a divided stage: its other parts, and the furthest that anything has reached in the
	// first part's memory.
	Parts []*Part
	High  [program.Spaces]int

	t      testing.TB
	pool   *program.Pool
	memory program.Binding
	guards [program.Spaces][]float32 // memory with the guards around it
}

// Compile compiles f for the given number of threads. GradOut is as in
// program.Compile. Gradients start from zero and everything else from NaN.
func Compile(t testing.TB, f program.Function, gradOut []bool, threads int) *Runner {
	return CompileStored(t, f, gradOut, true, threads, program.Storage{})
}

// CompileStored is Compile with values stored as s says; gradIn is as in program.Compile.
func CompileStored(t testing.TB, f program.Function, gradOut []bool, gradIn bool, threads int, s program.Storage) *Runner {
	return bind(t, f, program.Compile(f, gradOut, gradIn, threads, s), threads)
}

// CompileEvaluate compiles f for evaluation, with values stored as s says.
func CompileEvaluate(t testing.TB, f program.Function, threads int, s program.Storage) *Runner {
	return bind(t, f, program.CompileEvaluate(f, threads, s), threads)
}

// guard is the number of floats on each side of a space.
const guard = 64

// guardBits is a NaN that no kernel produces.
const guardBits = 0x7fc0beef

func bind(t testing.TB, f program.Function, s *program.Stage, threads int) *Runner {
	r := &Runner{
		Function: f, Stage: s, t: t,
		Env:     program.Env{Seed: 1, Step: 1, LossScale: 1},
		Options: program.Options{Poison: true},
		pool:    program.NewPool(threads),
	}
	t.Cleanup(r.pool.Close)
	r.memory, r.guards = guarded(s)
	return r
}

// Forward runs the forward program without residuals.
func (r *Runner) Forward() { r.t.Helper(); r.run(r.Stage.Forward) }

// Keep runs the forward program that stores the residuals.
func (r *Runner) Keep() { r.t.Helper(); r.run(r.Stage.Keep) }

// KeepAgain runs Keep as a recomputation: Forward or Keep has run.
func (r *Runner) KeepAgain() { r.t.Helper(); r.run(r.Stage.Keep.Again()) }

// Backward runs the backward program; Keep must have run.
func (r *Runner) Backward() { r.t.Helper(); r.run(r.Stage.Backward) }

// Input runs the first part of a split backward function; Keep must have run. What is free
// afterwards has other contents then.
func (r *Runner) Input() {
	r.t.Helper()
	r.spoil(program.Between)
	r.run(r.Stage.Input)
	r.spoil(program.In, program.DOut, program.Statistics, program.Residual)
}

// Weights runs the second part; Input must have run.
func (r *Runner) Weights() {
	r.t.Helper()
	r.run(r.Stage.Weights)
	r.spoil(program.Lasting, program.Between)
}

// spoil fills spaces with NaN.
func (r *Runner) spoil(spaces ...program.Space) {
	for _, s := range spaces {
		for i := range r.memory[s] {
			r.memory[s][i] = float32(math.NaN())
		}
	}
}

// ShareGrads makes r add to the accumulators of another runner of the same function.
func (r *Runner) ShareGrads(with *Runner) {
	r.memory[program.Grads], r.guards[program.Grads] = with.memory[program.Grads], with.guards[program.Grads]
}

func (r *Runner) run(p *program.Program) {
	r.t.Helper()
	if err := p.Run(r.pool, &r.memory, &r.Env, r.Options); err != nil {
		r.t.Fatalf("%s: %v", p.Name, err)
	}
	r.check(p.Name, "", &r.guards)
	for i, part := range r.Parts {
		r.check(p.Name, fmt.Sprintf(" of part %d", i+1), &part.guards)
	}
}

// check fails if a program has written beside its memory.
func (r *Runner) check(name, of string, guards *[program.Spaces][]float32) {
	r.t.Helper()
	for space, all := range guards {
		for i, v := range all {
			inside := guard <= i && i < len(all)-guard
			if !inside && math.Float32bits(v) != guardBits {
				r.t.Fatalf("%s: wrote float %d of space %s%s, which has %d", name, i-guard, program.Space(space), of, len(all)-2*guard)
			}
		}
	}
}

// Space returns the whole memory of a space.
func (r *Runner) Space(s program.Space) []float32 { return r.memory[s] }

func (r *Runner) at(o program.Operand) []float32 { return r.memory[o.Space][o.Off:o.End():o.End()] }

func (r *Runner) In(i int) []float32   { return r.at(r.Stage.In[i].Operand) }
func (r *Runner) Feed(i int) []float32 { return r.at(r.Stage.Feeds[i].Operand) }

// Out returns the values of Out(i): a copy where they are bfloat16, as DIn does.
func (r *Runner) Out(i int) []float32 { return r.Stage.Out[i].Floats(r.memory[program.Out]) }

// DOut returns the gradient of Out(i) that comes from outside; empty if it has
// none.
func (r *Runner) DOut(i int) []float32 { return r.at(r.Stage.DOut[i].Operand) }

// DIn returns the gradient of In(i); empty if it has none.
func (r *Runner) DIn(i int) []float32 { return r.Stage.DIn[i].Floats(r.memory[program.DIn]) }

// Param returns the parameter or constant whose node has the name.
func (r *Runner) Param(name string) []float32 { return r.at(r.Stage.Params[r.param(name)]) }

// Grads returns the accumulators of a parameter, one per use.
func (r *Runner) Grads(name string) [][]float32 {
	var uses [][]float32
	for _, u := range r.Stage.Uses {
		if u.Param == r.param(name) {
			uses = append(uses, r.at(u.Operand))
		}
	}
	return uses
}

// Grad returns the sum of a parameter's accumulators, in order.
func (r *Runner) Grad(name string) []float32 {
	sum := make([]float32, len(r.Param(name)))
	for _, use := range r.Grads(name) {
		for i, v := range use {
			sum[i] += v
		}
	}
	return sum
}

// Tally returns what the i-th tally has accumulated since the gradients were
// cleared.
func (r *Runner) Tally(i int) []float64 {
	x := r.at(r.Stage.Tallies[i])
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/2)
}

func (r *Runner) param(name string) int {
	r.t.Helper()
	for i, p := range r.Function.Params {
		if p.Name == name {
			return i
		}
	}
	r.t.Fatalf("no parameter %q", name)
	return -1
}

// Ints views a tensor as the int32 values that it contains.
func Ints(x []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
