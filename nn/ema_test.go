package nn_test

import (
	"math"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// TestEMA: with TensorFlow's num_updates the decay of the first steps is
// (1+t)/(10+t), 2/11 at t = 1; later, and always if Constant, it is Decay.
func TestEMA(t *testing.T) {
	for _, c := range []struct {
		e    nn.EMA
		step int
		want float64
	}{
		{nn.EMA{Decay: 0.9999}, 1, 2. / 11},
		{nn.EMA{Decay: 0.9999}, 90, 0.91},
		{nn.EMA{Decay: 0.9999}, 89990, 0.9999},
		{nn.EMA{Decay: 0.9999}, 1 << 30, 0.9999},
		{nn.EMA{Decay: 0.1}, 1, 0.1},
		{nn.EMA{Decay: 0.9999, Constant: true}, 1, 0.9999},
	} {
		if got := c.e.At(c.step); got != c.want {
			t.Errorf("%+v: decay %v at step %d, want %v", c.e, got, c.step, c.want)
		}
	}
	// average += (1 - d) (w - average), at step 1: 3 + 9/11 (5 - 3).
	average, w := []float32{3}, []float32{5}
	nn.EMA{Decay: 0.9999}.Update(average, w, 1)
	if want := 3 + 18./11; math.Abs(float64(average[0])-want) > 1e-6 || w[0] != 5 {
		t.Errorf("the average moves to %v, want %v; the weight is %v", average[0], want, w[0])
	}
}

func TestEMAValidate(t *testing.T) {
	for _, e := range []nn.EMA{{}, {Decay: 0.9999}} {
		testkit.Equal(t, e.Validate(), nil, "%+v", e)
	}
	for _, e := range []nn.EMA{{Decay: 1}, {Decay: -0.1}, {Decay: math.NaN()}} {
		if e.Validate() == nil {
			t.Errorf("%+v is accepted", e)
		}
	}
}
