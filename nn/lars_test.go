package nn_test

import (
	"math"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// normsOf are the norms that a pipeline gives a layer-wise optimiser.
func normsOf(w, g []float32) nn.Norms {
	norm := func(x []float32) float64 {
		var sum float64
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		return math.Sqrt(sum)
	}
	return nn.Norms{W: norm(w), G: norm(g)}
}

// TestLARSAgainstPyTorch compares every step of both forms, with and without weight decay
// and epsilon, also for tensors whose values or gradients are all zero and for one that is
// skipped. A wrong form (no weight decay in the ratio, the rate on the other side of the
// velocity) is off by 1e-3 and more.
func TestLARSAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/lars.json")
	var config struct {
		Cases map[string]struct {
			Momentum, Trust, Eps float64
			Decay                float64 `json:"weight_decay"`
			Unscaled             bool
		}
	}
	oracle.Config(&config)
	if len(config.Cases) != 4 {
		t.Fatalf("%d cases", len(config.Cases))
	}
	for name, c := range config.Cases {
		o := nn.LARS{Unscaled: c.Unscaled, Momentum: float32(c.Momentum), Trust: c.Trust, Eps: c.Eps}
		for _, tensor := range []string{"dense", "row", "zero", "skipped"} {
			w, grads := oracle.Floats("start/"+tensor), oracle.Floats("gradients/"+tensor)
			state := stateOf(o, len(w))
			var after []float32
			for step, rate := range oracle.Exact("rate") {
				// Clipping by half leaves what the oracle has.
				g := make([]float32, len(w))
				for i := range g {
					g[i] = 2 * grads[step*len(w)+i]
				}
				u := nn.Update{W: w, G: g, State: state, Step: step + 1, LR: float32(rate), Scale: 0.5, NoDecay: tensor == "skipped"}
				if !u.NoDecay {
					u.L2, u.Norms = float32(c.Decay), normsOf(w, g)
				}
				o.Update(u)
				after = append(after, w...)
			}
			oracle.Close(t, name+"/"+tensor, after, 2e-6)
		}
	}
}

func TestLARS(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, o := range []nn.LARS{{}, {Unscaled: true}, {Momentum: 0.5, Trust: 0.25, Eps: 1}} {
		optimizerSuite{Optimizer: o, Refused: []nn.Optimizer{
			nn.LARS{Momentum: 1}, nn.LARS{Momentum: -0.1}, nn.LARS{Momentum: float32(nan)},
			nn.LARS{Trust: -1}, nn.LARS{Trust: nan}, nn.LARS{Trust: inf},
			nn.LARS{Eps: -1}, nn.LARS{Eps: nan}, nn.LARS{Eps: inf},
		}}.run(t)
	}
}
