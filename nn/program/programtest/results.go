package programtest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"gpipebench/nn/program"
)

// Results are the bits of all outputs of training steps, by name, such as "out
// 0 of example 3", to be compared between runs that must agree.
type Results map[string][]uint32

// Step runs a training step on r and adds its outputs. First is the index of
// r's first example within the mini-batch.
func (rs Results) Step(r *Runner, first int) {
	r.t.Helper()
	r.Keep()
	rs.Outputs(r, first)
	r.Backward()
	rs.Gradients(r, first)
}

// SplitStep is Step with the backward function in two.
func (rs Results) SplitStep(r *Runner, first int) {
	r.t.Helper()
	r.Keep()
	rs.Outputs(r, first)
	r.Input()
	r.Weights()
	rs.Gradients(r, first)
}

// Gradients adds what the backward function that ran last on r has computed, and the
// tallies.
func (rs Results) Gradients(r *Runner, first int) {
	for i, d := range r.Stage.DIn {
		switch name := fmt.Sprint("gradient of in ", i); {
		case d.Len == 0:
		case d.Shape[0] == r.examples():
			rs.examples(name, r.DIn(i), d.Shape[0], first)
		default:
			rs[name] = Bits(r.DIn(i))
		}
	}
	for i, u := range r.Stage.Uses {
		rs[fmt.Sprintf("gradient of %s, accumulator %d", r.Function.Params[u.Param].Name, i)] = Bits(r.memory[program.Grads][u.Off:u.End()])
	}
	for i, o := range r.Stage.Tallies {
		rs[fmt.Sprint("tally ", i)] = Bits(r.at(o))
	}
}

// Outputs adds the outputs of the forward program that ran last on r.
func (rs Results) Outputs(r *Runner, first int) {
	for i := range r.Stage.Out {
		rs.examples(fmt.Sprint("out ", i), r.Out(i), r.examples(), first)
	}
}

func (rs Results) examples(what string, x []float32, n, first int) {
	per := len(x) / n
	for e := range n {
		rs[fmt.Sprintf("%s of example %d", what, first+e)] = Bits(x[e*per : (e+1)*per])
	}
}

// Same fails if got has other bits or other names.
func (rs Results) Same(t *testing.T, got Results, what string) {
	t.Helper()
	if a, b := slices.Sorted(maps.Keys(rs)), slices.Sorted(maps.Keys(got)); !slices.Equal(a, b) {
		t.Fatalf("%s: %q came out, want %q", what, b, a)
	}
	for name, want := range rs {
		for i, bits := range got[name] {
			if bits != want[i] {
				t.Errorf("%s: %s has other bits: element %d is %v, want %v", what, name, i,
					math.Float32frombits(bits), math.Float32frombits(want[i]))
				break
			}
		}
	}
}

// Bits returns the bit patterns of x, for exact comparison, including NaNs and
// the signs of zeros.
func Bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

// examples returns the number of examples of a run of r.
func (r *Runner) examples() int { return r.Stage.In[0].Shape[0] }
