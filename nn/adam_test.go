package nn_test

import (
	"math"
	"testing"

	"gpipebench/nn"
)

func TestAdamAgainstPyTorch(t *testing.T) {
	optimize(t, nn.Adam{}, "adam", 0.01)
	optimize(t, nn.Adam{WeightDecay: 0.01}, "adamw", 0.01)
}

func TestAdam(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, o := range []nn.Adam{{}, {WeightDecay: 0.01}, {Beta1: 0.9, Beta2: 0.98, Eps: 1e-9, WeightDecay: 0.01}} {
		optimizerSuite{
			Optimizer: o, Decays: o.WeightDecay != 0,
			Refused: []nn.Optimizer{
				nn.Adam{Beta1: 1}, nn.Adam{Beta1: -1}, nn.Adam{Beta1: nan}, nn.Adam{Beta2: 1}, nn.Adam{Beta2: nan},
				nn.Adam{Eps: -1}, nn.Adam{Eps: nan}, nn.Adam{Eps: inf},
				nn.Adam{WeightDecay: -1}, nn.Adam{WeightDecay: nan}, nn.Adam{WeightDecay: inf},
			},
		}.run(t)
	}
}
