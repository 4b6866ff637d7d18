package nn_test

import (
	"math"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/philox"
	"gpipebench/nn/program/programtest"
)

// TestFeedForward compares with a calculation by hand, with ReLU, which is the
// default.
func TestFeedForward(t *testing.T) {
	r := programtest.CompileLayers(t, programtest.Network{
		Layers: []nn.Layer{nn.Sequential("ff", nn.NewFeedForward("", nn.FeedForwardConfig{Dim: 1, Hidden: 2}))},
		In:     one(programtest.Floats(2, 1)),
	})
	copy(r.In(0), []float32{3, -1})
	copy(r.Param("ff/in/weight"), []float32{2, -1})
	copy(r.Param("ff/in/bias"), []float32{1, 0})
	copy(r.Param("ff/out/weight"), []float32{4, 8})
	copy(r.Param("ff/out/bias"), []float32{0.5})
	copy(r.DOut(0), []float32{1, 1})
	r.Keep()
	r.Backward()
	exactly(t, "y", r.Out(0), 28.5, 8.5) // hidden (7 0) and (0 1)
	exactly(t, "dx", r.DIn(0), 8, -8)
	exactly(t, "dW1", r.Grad("ff/in/weight"), 12, -8)
	exactly(t, "dW2", r.Grad("ff/out/weight"), 7, 1)
}

// TestScaledInit: both weights of a feed-forward layer start smaller by the
// number of layers (Huang et al. 2019, section 5), and are the same numbers
// otherwise; biases are zero in both cases.
func TestScaledInit(t *testing.T) {
	config := nn.FeedForwardConfig{Dim: 8, Hidden: 32}
	values := func() [][]float32 {
		var all [][]float32
		for _, p := range nn.NewFeedForward("ff", config).Params() {
			x := make([]float32, p.Shape.Elems())
			p.Init(philox.NewStream(philox.KeyOf(1, p.Name), 0), p.Shape, x)
			all = append(all, x)
		}
		return all
	}
	plain := values()
	config.ScaleLayers = 24
	for i, scaled := range values() {
		for j, v := range scaled {
			if want := float64(plain[i][j]) / 24; math.Abs(float64(v)-want) > 1e-7*math.Abs(want) {
				t.Fatalf("parameter %d element %d: %v, want %v", i, j, v, want)
			}
		}
	}
}
