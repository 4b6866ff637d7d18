package nn_test

import (
	"math"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// TestActivationsAgainstPyTorch covers the edges too: zero, the clip's limits
// and arguments that saturate.
func TestActivationsAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/activation.json")
	var config struct{ Limit float32 }
	oracle.Config(&config)
	for name, f := range map[string]func(tr *programtest.Trace, x *graph.Node) *graph.Node{
		"relu":      func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.ReLU(x) },
		"gelu_tanh": func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.GELU(x) },
		"sigmoid":   func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Sigmoid(x) },
		"tanh":      func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Tanh(x) },
		"softplus": func(tr *programtest.Trace, x *graph.Node) *graph.Node {
			return nn.NewActivation("", nn.Softplus).Forward(&nn.Trace{Graph: tr.Graph}, x)[0]
		},
		"clip": func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Clip(x, config.Limit) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := programtest.NewTrace()
			tr.Function.Out = []*graph.Node{f(tr, tr.In("x", graph.F32, oracle.Shape("x")...))}
			r := programtest.Compile(t, tr.Function, []bool{true}, 1)
			copy(r.In(0), oracle.Floats("x"))
			copy(r.DOut(0), oracle.Floats("dy"))
			r.Keep()
			r.Backward()
			// Compare element by element, so that a large one does not hide the
			// error of a small one: 1.5e-6 is seen where GELU is close to 0.
			for i, want := range oracle.Exact(name + "/y") {
				programtest.CloseTo(t, name+"/y", r.Out(0)[i:i+1], []float64{want}, 3e-6)
				// The derivatives 1-y² and y(1-y) have y's rounding, however small they are.
				if fromY := name == "sigmoid" || name == "tanh"; fromY {
					oracle.Close(t, name+"/dx", r.DIn(0), 3e-7)
					continue
				}
				programtest.CloseTo(t, name+"/dx", r.DIn(0)[i:i+1], oracle.Exact(name + "/dx")[i:i+1], 3e-6)
			}
		})
	}
}

// The first of equal maxima gets the gradient, and a NaN is the largest.
func TestMaxOfEquals(t *testing.T) {
	tr := programtest.NewTrace()
	tr.Function.Out = []*graph.Node{tr.Max(tr.In("x", graph.F32, 1, 3, 3), 1)}
	r := programtest.Compile(t, tr.Function, []bool{true}, 1)
	nan := float32(math.NaN())
	copy(r.In(0), []float32{1, 2, 0, 1, 3, nan, 0, 3, 1})
	copy(r.DOut(0), []float32{5, 7, 9})
	r.Keep()
	r.Backward()
	if y := r.Out(0); y[0] != 1 || y[1] != 3 || y[2] == y[2] {
		t.Errorf("maxima %v", y)
	}
	testkit.EqualAll(t, r.DIn(0), []float32{5, 0, 0, 0, 7, 0, 0, 0, 0}, "gradients")
}
