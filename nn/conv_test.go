package nn_test

import (
	"encoding/json"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// windowCase is a kernel, a stride and a padding as the oracle's script writes
// them.
type windowCase struct {
	Kernel, Stride [2]int
	Padding        json.RawMessage // "same", "valid", or top, bottom, left, right
}

func (c windowCase) padding(t *testing.T) nn.Padding {
	var edges [4]int
	switch string(c.Padding) {
	case `"same"`:
		return nn.Same
	case `"valid"`:
		return nn.Valid
	}
	if err := json.Unmarshal(c.Padding, &edges); err != nil {
		t.Fatal(err)
	}
	return nn.Pads(edges[0], edges[1], edges[2], edges[3])
}

// TestConv2DAgainstPyTorch: every kernel of the models at both strides, odd
// sizes, and the shifted convolution of a factorised reduction.
func TestConv2DAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/convolution.json")
	var config struct {
		Channels [2]int
		Cases    map[string]windowCase
	}
	oracle.Config(&config)
	for name, c := range config.Cases {
		t.Run(name, func(t *testing.T) {
			conv := nn.NewConv2D("", nn.Conv2DConfig{
				In: config.Channels[0], Out: config.Channels[1], Kernel: c.Kernel, Stride: c.Stride, Padding: c.padding(t),
			})
			r := programtest.CompileLayers(t, programtest.Network{
				Layers: []nn.Layer{nn.Sequential("conv", conv)},
				In:     []graph.Type{programtest.Floats(oracle.Shape("x")...)},
			})
			copy(r.In(0), oracle.Floats("x"))
			copy(r.DOut(0), oracle.Floats(name+"/dy"))
			copy(r.Param("conv/weight"), oracle.Floats("w/"+name[:3]))
			r.Keep()
			r.Backward()
			oracle.Close(t, name+"/y", r.Out(0), oracleTolerance)
			oracle.Close(t, name+"/dx", r.DIn(0), oracleTolerance)
			oracle.Close(t, name+"/dw", r.Grad("conv/weight"), oracleTolerance)
		})
	}
}

// TestShiftIsAPad: a convolution whose padding crops equals one of the image
// without its first row and column and with zeros after its last.
func TestShiftIsAPad(t *testing.T) {
	shift := func(height int) (out int) {
		w := graph.Window{KH: 1, KW: 1, SH: 2, SW: 2, Top: -1, Bottom: 1, Left: -1, Right: 1}
		out, _ = w.Out(height, height)
		return out
	}
	for height, want := range map[int]int{1: 1, 2: 1, 7: 4, 8: 4} {
		if got := shift(height); got != want {
			t.Errorf("%d rows give %d, want %d as the convolution that is not shifted", height, got, want)
		}
	}
}
