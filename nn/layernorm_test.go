package nn_test

import (
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// TestLayerNormAgainstPyTorch covers rows with a large mean, where a variance
// from a sum of squares would be lost, rows so small that epsilon matters, and
// constant ones.
func TestLayerNormAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/layernorm.json")
	var config struct {
		Eps   float32
		Cases []string
	}
	oracle.Config(&config)
	tolerance := map[string]float64{
		// A mean of a thousand is rounded by 3e-5, which the deviations around it
		// (1 and more) inherit.
		"large-mean": 1e-4,
	}
	for _, name := range config.Cases {
		t.Run(name, func(t *testing.T) {
			shape := oracle.Shape(name + "/x")
			r := programtest.CompileLayers(t, programtest.Network{
				Layers: []nn.Layer{nn.Sequential("norm", nn.NewLayerNorm("", nn.LayerNormConfig{Dim: shape[1], Eps: config.Eps}))},
				In:     []graph.Type{programtest.Floats(shape...)},
			})
			copy(r.In(0), oracle.Floats(name+"/x"))
			copy(r.DOut(0), oracle.Floats(name+"/dy"))
			copy(r.Param("norm/gamma"), oracle.Floats("gamma"))
			copy(r.Param("norm/beta"), oracle.Floats("beta"))
			r.Keep()
			r.Backward()
			tol := max(tolerance[name], oracleTolerance)
			oracle.Close(t, name+"/y", r.Out(0), tol)
			oracle.Close(t, name+"/dx", r.DIn(0), tol)
			oracle.Close(t, name+"/dgamma", r.Grad("norm/gamma"), tol)
			oracle.Close(t, name+"/dbeta", r.Grad("norm/beta"), tol)
		})
	}
}
