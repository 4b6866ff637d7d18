package nn_test

import (
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// TestPoolsAgainstPyTorch: padding takes no part in a maximum and does not
// count in a mean.
func TestPoolsAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/pools.json")
	var config struct{ Cases map[string]windowCase }
	oracle.Config(&config)
	check := func(name string, pool nn.Layer) {
		t.Run(name, func(t *testing.T) {
			r := programtest.CompileLayers(t, programtest.Network{
				Layers: []nn.Layer{pool},
				In:     []graph.Type{programtest.Floats(oracle.Shape("x")...)},
			})
			copy(r.In(0), oracle.Floats("x"))
			copy(r.DOut(0), oracle.Floats(name+"/dy"))
			r.Keep()
			r.Backward()
			oracle.Close(t, name+"/y", r.Out(0), oracleTolerance)
			oracle.Close(t, name+"/dx", r.DIn(0), oracleTolerance)
		})
	}
	for name, c := range config.Cases {
		p := nn.PoolConfig{Kernel: c.Kernel, Stride: c.Stride, Padding: c.padding(t)}
		check(name+"/max", nn.NewMaxPool("pool", p))
		check(name+"/average", nn.NewAvgPool("pool", p))
	}
	check("global", nn.NewGlobalAvgPool("pool"))
}
