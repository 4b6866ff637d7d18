package accelerator_test

import (
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// scanSeconds models a training step of one of GNMT's layers, 1024 units over 50 steps, in
// bfloat16.
func scanSeconds(a *accelerator.Accelerator, batch int, inside bool) float64 {
	const steps, width, hidden = 50, 1024, 1024
	g := &graph.Graph{}
	x := g.NewNode(graph.Input, "x", graph.F32, batch, steps, width)
	wx := g.NewNode(graph.Param, "wx", graph.F32, width, 4*hidden)
	bias := g.NewNode(graph.Param, "bias", graph.F32, 4*hidden)
	w := g.NewNode(graph.Param, "w", graph.F32, hidden, 4*hidden)
	var y *graph.Node
	if inside {
		y = g.LSTMInside(x, wx, bias, w, nil, false)
	} else {
		y = g.LSTM(g.AddBias(g.MatMul(x, wx), bias), w, nil, false)
	}
	f := program.Function{Graph: g, In: []*graph.Node{x}, Out: []*graph.Node{y}, Params: []*graph.Node{wx, bias, w}}
	s := program.Compile(f, []bool{true}, true, 1, program.Storage{DType: graph.BF16, NoPacking: true})
	return a.Seconds(s.Keep, graph.BF16) + a.Seconds(s.Backward, graph.BF16)
}

// TestHoistingOnTPU: with few examples a core, a scan that projects its input inside is bound by its weights, which
// it reads in every step, and by their accumulators: at least twice the bytes of a hoisted one (Kumar et al. 2019,
// section 3, on GNMT). So on a modelled TPUv3 hoisting pays at every batch up to 32, and a hoisted step grows less than
// the batch.
func TestHoistingOnTPU(t *testing.T) {
	a := testkit.Must(accelerator.Named("tpuv3"))(t)
	first := scanSeconds(a, 1, false)
	for _, batch := range []int{1, 2, 4, 8, 16, 32} {
		hoisted, inside := scanSeconds(a, batch, false), scanSeconds(a, batch, true)
		t.Logf("batch %2d: hoisted %.2f ms, inside %.2f ms, %.2f times as long", batch, 1e3*hoisted, 1e3*inside, inside/hoisted)
		if inside < 2*hoisted {
			t.Errorf("batch %d: %.3g s hoisted, %.3g s inside, want twice as long or more", batch, hoisted, inside)
		}
		if batch > 1 && hoisted > first*float64(batch)/1.5 {
			t.Errorf("batch %d: %.3g s hoisted, %.3g s for one example, want less than in proportion", batch, hoisted, first)
		}
	}
}
