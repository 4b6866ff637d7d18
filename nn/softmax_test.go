package nn_test

import (
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// TestSoftmax compares with a calculation by hand: x·Wᵀ + b and its clipping;
// nothing flows back through a clipped logit.
func TestSoftmax(t *testing.T) {
	for _, c := range []struct {
		limit  float32
		y      []float32
		dx, db []float32
	}{
		{0, []float32{9, -7, 1.5}, []float32{1 - 6 + 4, 4 + 2 - 4}, []float32{1, 2, 4}},
		{8, []float32{8, -7, 1.5}, []float32{-6 + 4, 2 - 4}, []float32{0, 2, 4}},
	} {
		r := programtest.CompileLayers(t, programtest.Network{
			Layers: []nn.Layer{nn.Sequential("softmax", nn.NewSoftmax("", nn.SoftmaxConfig{Vocab: 3, Dim: 2, ClipLogits: c.limit}))},
			In:     one(programtest.Floats(1, 2)),
		})
		copy(r.In(0), []float32{2, 1})
		copy(r.Param("softmax/weight"), []float32{1, 4, -3, 1, 1, -1})
		copy(r.Param("softmax/bias"), []float32{3, -2, 0.5})
		copy(r.DOut(0), []float32{1, 2, 4})
		r.Keep()
		r.Backward()
		exactly(t, "y", r.Out(0), c.y...)
		exactly(t, "dx", r.DIn(0), c.dx...)
		exactly(t, "db", r.Grad("softmax/bias"), c.db...)
	}
}
