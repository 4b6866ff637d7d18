package nn_test

import (
	"math"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/program/programtest"
)

// optimizerTolerance is for ten steps on weights near 2, each rounded to
// float32 two or three times: errors of 3e-7 are seen. A wrong term (the rate
// inside the velocity, a missing bias correction, L2 after the step) is off by
// 1e-4 and more.
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
			state := stateOf(o, size)
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

func TestSGD(t *testing.T) {
	nan := float32(math.NaN())
	for _, o := range []nn.SGD{{}, {Momentum: 0.9}, {Momentum: 0.9, Nesterov: true}} {
		optimizerSuite{Optimizer: o, Refused: []nn.Optimizer{
			nn.SGD{Momentum: 1}, nn.SGD{Momentum: -0.1}, nn.SGD{Momentum: nan}, nn.SGD{Nesterov: true},
		}}.run(t)
	}
}
