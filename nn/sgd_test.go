package nn_test

import (
	"math"
	"slices"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// optimizerTolerance is for ten steps on weights near 2, each rounded to
// float32 two or three times: 3e-7 is seen. A wrong term (the rate inside the
// velocity, a missing bias correction, L2 after the step) is off by 1e-4 and more.
const optimizerTolerance = 1e-6

// optimize runs the oracle's ten steps and compares the weights after each.
func optimize(t *testing.T, o nn.Optimizer, kind string, lr float64) {
	oracle := programtest.ReadOracle(t, "testdata/optimizers.json")
	var config struct{ L2 float32 }
	oracle.Config(&config)
	grads := oracle.Floats("gradients")
	size := len(oracle.Floats("start"))
	for _, regular := range []string{"plain", "l2"} {
		for _, rate := range []string{"constant", "varying"} {
			w := oracle.Floats("start")
			state := make([][]float32, o.Slots())
			for i := range state {
				state[i] = make([]float32, size)
			}
			l2 := float32(0)
			if regular == "l2" {
				l2 = config.L2
			}
			var after []float32
			for step, factor := range oracle.Exact("rate/" + rate) {
				o.Update(nn.Update{
					W: w, G: grads[step*size : (step+1)*size], State: state, Step: step + 1,
					LR: float32(lr * factor), Scale: 1, L2: l2,
				})
				after = append(after, w...)
			}
			oracle.Close(t, kind+"/"+regular+"/"+rate+"/weights", after, optimizerTolerance)
		}
	}
}

func TestSGDAgainstPyTorch(t *testing.T) {
	optimize(t, nn.SGD{}, "sgd", 0.125)
	optimize(t, nn.SGD{Momentum: 0.9}, "momentum", 0.125)
	optimize(t, nn.SGD{Momentum: 0.9, Nesterov: true}, "nesterov", 0.125)
}

// TestUpdateInPieces: updates are element-wise, so a parameter may be updated
// in pieces, by several threads say. And Scale multiplies the gradient, as
// clipping its norm does.
func TestUpdateInPieces(t *testing.T) {
	for _, o := range []nn.Optimizer{nn.SGD{}, nn.SGD{Momentum: 0.9}, nn.SGD{Momentum: 0.9, Nesterov: true}, nn.Adam{}, nn.Adam{WeightDecay: 0.01}, nn.RMSProp{}} {
		const size = 53
		run := func(cuts []int, scale float32) []float32 {
			w, g := make([]float32, size), make([]float32, size)
			for i := range w {
				w[i] = float32(math.Sin(float64(i)))
			}
			state := make([][]float32, o.Slots())
			for i := range state {
				state[i] = make([]float32, size)
			}
			for step := 1; step <= 3; step++ {
				for i := range g {
					g[i] = float32(math.Cos(float64(i*step))) * 0.25 / scale
				}
				from := 0
				for _, to := range append(cuts, size) {
					u := nn.Update{W: w[from:to], G: g[from:to], Step: step, LR: 0.1, Scale: scale, L2: 0.01}
					for _, s := range state {
						u.State = append(u.State, s[from:to])
					}
					o.Update(u)
					from = to
				}
			}
			return w
		}
		want := run(nil, 1)
		for what, got := range map[string][]float32{"in pieces": run([]int{7, 16, 40}, 1), "scaled": run(nil, 0.5)} {
			if !slices.Equal(programtest.Bits(want), programtest.Bits(got)) {
				t.Errorf("%s %s: %v, want %v", o.Name(), what, got, want)
			}
		}
	}
}

func TestSGDValidate(t *testing.T) {
	for _, o := range []nn.SGD{{}, {Momentum: 0.9}, {Momentum: 0.9, Nesterov: true}} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	nan := float32(math.NaN())
	for _, o := range []nn.SGD{{Momentum: 1}, {Momentum: -0.1}, {Momentum: nan}, {Nesterov: true}} {
		if o.Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
