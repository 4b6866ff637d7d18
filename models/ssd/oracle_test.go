package ssd

import (
	"fmt"
	"testing"

	"gpipebench/models/internal/imageoracle"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// TestLayersAgainstPyTorch: basic blocks with and without a convolution in their
// shortcut, the first map's heads, and maps that are made with and without padding.
func TestLayersAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/layers.json")
	var c struct {
		model
		Cases map[string]struct {
			Seed  int
			Input []int
		}
	}
	oracle.Config(&c)
	for _, l := range c.build(t, false) {
		one, ok := c.Cases[l.Name()]
		if !ok {
			continue
		}
		delete(c.Cases, l.Name())
		t.Run(l.Name(), func(t *testing.T) {
			o := imageoracle.Oracle{Oracle: oracle, Prefix: l.Name() + ":", Seed: one.Seed, Tolerance: 3e-6, Gradient: 3e-6}
			o.Layer(t, l, []string{"x"}, []graph.Type{programtest.Floats(one.Input...)})
		})
	}
	if len(c.Cases) > 0 {
		t.Errorf("no layers for %v", c.Cases)
	}
}

// TestTrainingAgainstPyTorch: two mini-batches of several micro-batches of a
// small model, in either cut.
func TestTrainingAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/training.json")
	var m model
	var c imageoracle.Training
	oracle.Config(&m)
	oracle.Config(&c)
	for _, fine := range []bool{false, true} {
		t.Run(fmt.Sprint("fine=", fine), func(t *testing.T) {
			o := imageoracle.Oracle{Oracle: oracle, Seed: c.Seed, Tolerance: 5e-6, Gradient: 1e-5}
			o.Training(t, c, m.build(t, fine), Loss{nn.CrossEntropy{Smoothing: c.Smoothing}})
		})
	}
}

// model is the description of a model in a file.
type model struct {
	Width, Classes, Image int
	Eps                   float32
	Momentum              float64
}

func (m model) build(t *testing.T, fine bool) []nn.Layer {
	return build(t, Config{Width: m.Width, Classes: m.Classes, Image: m.Image, Eps: m.Eps, Momentum: m.Momentum, Fine: fine})
}
