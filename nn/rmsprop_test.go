package nn_test

import (
	"math"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// TestRMSPropAgainstFloat64: PyTorch's RMSprop has another form, so the oracle
// is TensorFlow's formula in float64, on the gradients of the other optimisers'
// oracle. A wrong form (Eps outside the root, squares from zero, the rate
// outside the momentum under a varying rate) is off by 1e-3 and more.
func TestRMSPropAgainstFloat64(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/optimizers.json")
	grads := oracle.Floats("gradients")
	start := oracle.Floats("start")
	size := len(start)
	for _, c := range []struct {
		o                    nn.RMSProp
		decay, momentum, eps float64
		l2                   float32
	}{
		{nn.RMSProp{}, 0.9, 0.9, 1, 0},
		{nn.RMSProp{Decay: 0.75, Momentum: 0.5, Eps: 0.001}, 0.75, 0.5, 0.001, 0.01},
	} {
		w := append([]float32(nil), start...)
		state := stateOf(c.o, size)
		w64, ms, mom := make([]float64, size), make([]float64, size), make([]float64, size)
		for i, v := range start {
			w64[i], ms[i] = float64(v), 1
		}
		const lr = 0.0625
		for step, factor := range oracle.Exact("rate/varying") {
			g := grads[step*size : (step+1)*size]
			c.o.Update(nn.Update{W: w, G: g, State: state, Step: step + 1, LR: float32(lr * factor), Scale: 1, L2: c.l2})
			for i := range w64 {
				grad := float64(g[i]) + float64(c.l2)*w64[i]
				ms[i] = c.decay*ms[i] + (1-c.decay)*grad*grad
				mom[i] = c.momentum*mom[i] + lr*factor*grad/math.Sqrt(ms[i]+c.eps)
				w64[i] -= mom[i]
				if math.Abs(float64(w[i])-w64[i]) > 2e-6 {
					t.Fatalf("%+v: step %d, weight %d: %v, want %v", c.o, step+1, i, w[i], w64[i])
				}
			}
		}
	}
}

func TestRMSProp(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, o := range []nn.RMSProp{{}, {Decay: 0.95, Momentum: 0.5, Eps: 1e-10}} {
		optimizerSuite{
			Optimizer: o, Start: map[string]float32{"mean_square": 1},
			Refused: []nn.Optimizer{
				nn.RMSProp{Decay: 1}, nn.RMSProp{Decay: -0.1}, nn.RMSProp{Decay: nan},
				nn.RMSProp{Momentum: 1}, nn.RMSProp{Momentum: -1}, nn.RMSProp{Momentum: nan},
				nn.RMSProp{Eps: -1}, nn.RMSProp{Eps: nan}, nn.RMSProp{Eps: inf},
			},
		}.run(t)
	}
}
