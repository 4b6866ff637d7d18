package nn_test

import (
	"slices"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// pathsDropped applies a drop-path to ones, 200 examples of 3 elements, and returns
// the result and its gradient.
func pathsDropped(t *testing.T, d *nn.DropPath, step uint64) (y, dx []float32) {
	t.Helper()
	r := programtest.CompileLayers(t, programtest.Network{Layers: []nn.Layer{nn.Sequential("layer", d)}, In: one(programtest.Floats(200, 3))})
	for i := range r.In(0) {
		r.In(0)[i], r.DOut(0)[i] = 1, 1
	}
	r.Env.Step = step
	r.Keep()
	r.Backward()
	return r.Out(0), r.DIn(0)
}

// TestDropPathRises: from nothing at the first step, evenly, to the rate, which
// then stays, with the same random numbers as at that rate.
func TestDropPathRises(t *testing.T) {
	const rate = 0.75
	for step, at := range map[uint64]float32{1: 0, 2: rate / 4, 3: rate / 2, 5: rate, 6: rate, 1 << 40: rate} {
		y, dx := pathsDropped(t, nn.NewDropPath("path", rate).Rising(4), step)
		want, _ := pathsDropped(t, nn.NewDropPath("path", at), step)
		if !slices.Equal(y, want) || !slices.Equal(dx, want) {
			t.Errorf("step %d: not what a rate of %v gives", step, at)
		}
	}
	y, _ := pathsDropped(t, nn.NewDropPath("path", rate).Rising(0), 1)
	if want, _ := pathsDropped(t, nn.NewDropPath("path", rate), 1); !slices.Equal(y, want) || !slices.Contains(y, 0) {
		t.Error("a rise over no steps is not the rate at all steps")
	}
}
