package nn_test

import (
	"math"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/optimizertest"
)

func TestAdamAgainstPyTorch(t *testing.T) {
	optimize(t, nn.Adam{}, "adam", 0.01)
	optimize(t, nn.Adam{WeightDecay: 0.01}, "adamw", 0.01)
}

func TestAdamZeroValues(t *testing.T) {
	step := func(o nn.Adam, noDecay bool) float32 {
		w := []float32{2}
		state := [][]float32{{0}, {0}}
		for i, g := range []float32{0.5, -0.25, 1} {
			o.Update(nn.Update{W: w, G: []float32{g}, State: state, Step: i + 1, LR: 0.125, Scale: 1, NoDecay: noDecay})
		}
		return w[0]
	}
	zero := step(nn.Adam{}, false)
	if got := step(nn.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, false); got != zero {
		t.Errorf("the zero value gives %v, its documented values %v", zero, got)
	}
	if got := step(nn.Adam{Beta1: 0.8}, false); got == zero {
		t.Error("Beta1 has no effect")
	}
	decay := nn.Adam{WeightDecay: 0.1}
	if got := step(decay, true); got != zero {
		t.Errorf("NoDecay gives %v, want %v", got, zero)
	}
	if got := step(decay, false); got >= zero {
		t.Errorf("weight decay gives %v, want less than %v", got, zero)
	}
}

func TestAdam(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, o := range []nn.Adam{{}, {WeightDecay: 0.01}, {Beta1: 0.9, Beta2: 0.98, Eps: 1e-9, WeightDecay: 0.01}} {
		optimizertest.Run(t, optimizertest.Suite{
			Optimizer: o, Decays: o.WeightDecay != 0,
			Refused: []nn.Optimizer{
				nn.Adam{Beta1: 1}, nn.Adam{Beta1: -1}, nn.Adam{Beta1: nan}, nn.Adam{Beta2: 1}, nn.Adam{Beta2: nan},
				nn.Adam{Eps: -1}, nn.Adam{Eps: nan}, nn.Adam{Eps: inf},
				nn.Adam{WeightDecay: -1}, nn.Adam{WeightDecay: nan}, nn.Adam{WeightDecay: inf},
			},
		})
	}
}
