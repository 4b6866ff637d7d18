package nn_test

import (
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// TestDepthwiseAgainstPyTorch: kernels of several sizes, strides and dilations,
// even where neither divides the other, and a crop.
func TestDepthwiseAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/depthwise.json")
	var config struct {
		Channels int
		Cases    map[string]struct {
			windowCase
			Dilation int
		}
	}
	oracle.Config(&config)
	for name, c := range config.Cases {
		t.Run(name, func(t *testing.T) {
			d := nn.NewDepthwise("", nn.DepthwiseConfig{
				Channels: config.Channels, Kernel: c.Kernel, Stride: c.Stride, Dilation: c.Dilation, Padding: c.padding(t),
			})
			r := programtest.CompileLayers(t, programtest.Network{
				Layers: []nn.Layer{nn.Sequential("depthwise", d)},
				In:     []graph.Type{programtest.Floats(oracle.Shape("x")...)},
			})
			copy(r.In(0), oracle.Floats("x"))
			copy(r.DOut(0), oracle.Floats(name+"/dy"))
			copy(r.Param("depthwise/weight"), oracle.Floats(name+"/w"))
			r.Keep()
			r.Backward()
			oracle.Close(t, name+"/y", r.Out(0), oracleTolerance)
			oracle.Close(t, name+"/dx", r.DIn(0), oracleTolerance)
			oracle.Close(t, name+"/dw", r.Grad("depthwise/weight"), oracleTolerance)
		})
	}
}
