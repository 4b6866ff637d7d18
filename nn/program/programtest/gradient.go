package programtest

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"gpipebench/nn/graph"
)

// GradientStep is the step of the finite differences that CheckGradients
// compares with, and GradientTolerance the allowed difference, in units of a
// tensor's largest gradient, or of 1 if that is smaller.
//
// They are central differences of five points. Kernels compute in float32, so
// an output of magnitude 1 has an error of about 1e-7 and the quotient that
// over the step; the formula's own error is the step to the fourth over 30,
// times the fifth derivative. With 2^-5 the first is near 5e-6, and the second
// below that for functions that are smooth on the scale of 1. The largest
// difference seen is 8e-5, in the first layer norm of a Transformer layer.
const (
	GradientStep      = 1.0 / 32
	GradientTolerance = 2e-4
)

var fivePoints = fd.Formula{
	Stencil:    []fd.Point{{Loc: -2, Coeff: 1. / 12}, {Loc: -1, Coeff: -8. / 12}, {Loc: 1, Coeff: 8. / 12}, {Loc: 2, Coeff: -1. / 12}},
	Derivative: 1,
	Step:       GradientStep,
}

// CheckGradients runs a training step and compares the gradients of all inputs
// and parameters with finite differences of an objective: if loss, the losses
// in output 0 times the loss scale, else the outputs times the gradients given
// for them, added in float64. Inputs should be short binary fractions, so that
// a step away from them is exact. Constants are left out.
func (r *Runner) CheckGradients(t *testing.T, loss bool) {
	t.Helper()
	r.Keep()
	r.Backward()
	objective := func() float64 {
		r.Forward()
		var total float64
		for i, out := range r.Stage.Out {
			switch d := r.DOut(i); {
			case loss && i == 0:
				for _, l := range r.Out(i) {
					total += float64(r.Env.LossScale) * float64(l)
				}
			case len(d) > 0 && out.DType != graph.I32:
				for j, v := range r.Out(i) {
					total += float64(v) * float64(d[j])
				}
			}
		}
		return total
	}
	for i, n := range r.Function.In {
		if n.DType == graph.I32 {
			if len(r.DIn(i)) > 0 {
				t.Errorf("integers %s have a gradient", n.Name)
			}
			continue
		}
		got := make([]float32, len(r.In(i)))
		copy(got, r.DIn(i)) // zeros if nothing depends on it
		checkGradient(t, n.Name, r.In(i), got, objective)
	}
	for _, n := range r.Function.Params {
		if n.Role == graph.Param {
			checkGradient(t, n.Name, r.Param(n.Name), r.Grad(n.Name), objective)
		}
	}
}

// checkGradient changes x and restores it.
func checkGradient(t *testing.T, name string, x, got []float32, objective func() float64) {
	t.Helper()
	start := make([]float64, len(x))
	for i, v := range x {
		start[i] = float64(v)
	}
	set := func(at []float64) {
		for i, v := range at {
			x[i] = float32(v)
		}
	}
	want := fd.Gradient(nil, func(at []float64) float64 {
		set(at)
		return objective()
	}, start, &fd.Settings{Formula: fivePoints})
	set(start)

	size := 1.0
	for _, w := range want {
		size = max(size, math.Abs(w))
	}
	worst := 0.0
	for i, w := range want {
		err := math.Abs(w-float64(got[i])) / size
		if !(err <= GradientTolerance) {
			t.Errorf("gradient of %s, element %d: %v, by finite differences %v", name, i, got[i], w)
		}
		worst = max(worst, err)
	}
	t.Logf("gradient of %-20s error %.1e", name, worst)
}
