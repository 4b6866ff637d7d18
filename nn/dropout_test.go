package nn_test

import (
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// dropped applies a dropout to ones, 4 examples of 5000 elements.
func dropped(t *testing.T, name string, rate float32, evaluate bool, env func(r *programtest.Runner)) []float32 {
	t.Helper()
	r := programtest.CompileLayers(t, programtest.Network{
		Layers:   []nn.Layer{nn.Sequential("layer", nn.NewDropout(name, rate))},
		In:       one(programtest.Floats(4, 5000)),
		Evaluate: evaluate,
	})
	for i := range r.In(0) {
		r.In(0)[i] = 1
	}
	if env != nil {
		env(r)
	}
	r.Forward()
	return r.Out(0)
}

func TestDropout(t *testing.T) {
	const rate = 0.3
	out := dropped(t, "dropout", rate, false, nil)
	kept, scale := 0, float32(1/(1-float64(float32(rate))))
	for i, v := range out {
		switch v {
		case scale:
			kept++
		case 0:
		default:
			t.Fatalf("element %d of ones is %v, want 0 or %v", i, v, scale)
		}
	}
	n := float64(len(out))
	if share, sigma := float64(kept)/n, math.Sqrt(rate*(1-rate)/n); math.Abs(share-(1-rate)) > 4*sigma {
		t.Errorf("%.4f of the elements are kept, want %v within %.4f", share, 1-rate, 4*sigma)
	}
	if slices.Equal(out[:5000], out[5000:10000]) {
		t.Error("two examples share a mask")
	}
	for what, env := range map[string]func(r *programtest.Runner){
		"seed":    func(r *programtest.Runner) { r.Env.Seed++ },
		"step":    func(r *programtest.Runner) { r.Env.Step++ },
		"example": func(r *programtest.Runner) { r.Env.Example++ },
	} {
		if slices.Equal(out, dropped(t, "dropout", rate, false, env)) {
			t.Errorf("another %s has the same mask", what)
		}
	}
	if slices.Equal(out, dropped(t, "dropout2", rate, false, nil)) {
		t.Error("another path has the same mask")
	}
	// The mask belongs to the example's index in the mini-batch, not to its row
	// in the micro-batch.
	moved := dropped(t, "dropout", rate, false, func(r *programtest.Runner) { r.Env.Example = 1 })
	testkit.EqualAll(t, out[5000:], moved[:15000], "an example's mask depends on its place in the micro-batch")
}

// TestDropoutDoesNothing in an evaluation, or with a rate of 0.
func TestDropoutDoesNothing(t *testing.T) {
	for what, out := range map[string][]float32{"evaluate": dropped(t, "dropout", 0.5, true, nil), "rate 0": dropped(t, "dropout", 0, false, nil)} {
		for i, v := range out {
			testkit.Equal(t, v, 1, "%s: element %d of ones", what, i)
		}
	}
}
