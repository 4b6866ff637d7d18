package nn_test

import (
	"testing"

	"gpipebench/internal/kernel"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// TestBatchNormAgainstPyTorch: training and evaluation, channels with a large
// mean, nearly and exactly constant ones, and the update of the moving
// averages.
func TestBatchNormAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/batchnorm.json")
	var config struct {
		Eps      float32
		Momentum float64
	}
	oracle.Config(&config)
	shape := oracle.Shape("x")
	network := func(relu, evaluate bool) *programtest.Runner {
		norm := nn.NewBatchNorm("", nn.BatchNormConfig{Channels: shape[3], Eps: config.Eps, ReLU: relu})
		r := programtest.CompileLayers(t, programtest.Network{
			Layers: []nn.Layer{nn.Sequential("norm", norm)}, In: []graph.Type{programtest.Floats(shape...)}, Evaluate: evaluate,
		})
		copy(r.In(0), oracle.Floats("x"))
		copy(r.Param("norm/gamma"), oracle.Floats("gamma"))
		copy(r.Param("norm/beta"), oracle.Floats("beta"))
		copy(r.Param("norm/moving_mean"), oracle.Floats("mean"))
		copy(r.Param("norm/moving_variance"), oracle.Floats("variance"))
		return r
	}
	// A mean of a thousand is rounded by 3e-5, of deviations around 8.
	const tolerance = 1e-5
	for name, relu := range map[string]bool{"plain": false, "relu": true} {
		t.Run(name, func(t *testing.T) {
			r := network(relu, false)
			copy(r.DOut(0), oracle.Floats(name+"/dy"))
			r.Keep()
			r.Backward()
			oracle.Close(t, name+"/y", r.Out(0), tolerance)
			oracle.Close(t, name+"/dx", r.DIn(0), tolerance)
			oracle.Close(t, name+"/dgamma", r.Grad("norm/gamma"), tolerance)
			oracle.Close(t, name+"/dbeta", r.Grad("norm/beta"), tolerance)

			mean, variance := oracle.Floats("mean"), oracle.Floats("variance")
			kernel.MoveStatistics(mean, variance, r.Tally(0), config.Momentum, true)
			oracle.Close(t, "moved/mean", mean, oracleTolerance)
			oracle.Close(t, "moved/variance", variance, oracleTolerance)

			e := network(relu, true)
			e.Forward()
			oracle.Close(t, name+"/evaluated", e.Out(0), oracleTolerance)
		})
	}
}

// TestTallyOfMicroBatches: micro-batches of any sizes add up to the statistics
// of the whole mini-batch; what runs again does not count; the biased variance
// divides by n, the unbiased one by n-1.
func TestTallyOfMicroBatches(t *testing.T) {
	const examples, channels = 7, 3
	whole := make([]float32, examples*2*channels)
	fill(whole, "x")
	for i := range whole {
		whole[i] += float32(100 * (i % channels))
	}
	var tally []float32
	for from, to := 0, 3; from < examples; from, to = to, min(to+3, examples) { // 3, 3, 1
		r := programtest.CompileLayers(t, programtest.Network{
			Layers: []nn.Layer{nn.NewBatchNorm("norm", nn.BatchNormConfig{Channels: channels})},
			In:     []graph.Type{programtest.Floats(to-from, 2, channels)},
		})
		at := r.Stage.Tallies[0]
		place := r.Space(at.Space)[at.Off:at.End()]
		copy(place, tally)
		copy(r.In(0), whole[from*2*channels:to*2*channels])
		r.Forward()
		r.Env.Again = true
		r.Keep()
		tally = append([]float32{}, place...)
		if to < examples {
			continue
		}

		for _, unbiased := range []bool{false, true} {
			mean, variance := []float32{1, 2, 3}, []float32{4, 5, 6}
			kernel.MoveStatistics(mean, variance, r.Tally(0), 0.75, unbiased)
			for c := range channels {
				var sum, squares float64
				for i := c; i < len(whole); i += channels {
					sum += float64(whole[i])
				}
				m := sum / (2 * examples)
				for i := c; i < len(whole); i += channels {
					squares += (float64(whole[i]) - m) * (float64(whole[i]) - m)
				}
				n := 2.0 * examples
				if unbiased {
					n--
				}
				programtest.CloseTo(t, "mean", mean[c:c+1], []float64{0.75*float64(1+c) + 0.25*m}, 1e-6)
				programtest.CloseTo(t, "variance", variance[c:c+1], []float64{0.75*float64(4+c) + 0.25*squares/n}, 1e-6)
			}
		}
	}
}
