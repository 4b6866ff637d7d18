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
