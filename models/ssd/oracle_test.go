package ssd

import (
	"testing"

	"gpipebench/models/internal/imageoracle"
	"gpipebench/nn"
)

// TestLayersAgainstPyTorch: basic blocks with and without a convolution in their
// shortcut, the first map's heads, and maps that are made with and without padding.
func TestLayersAgainstPyTorch(t *testing.T) {
	imageoracle.Layers(t, "testdata/layers.json", func(m model) []nn.Layer { return m.build(t, false) })
}

// TestTrainingAgainstPyTorch: two mini-batches of several micro-batches of a
// small model, in either cut.
func TestTrainingAgainstPyTorch(t *testing.T) {
	imageoracle.InBothCuts(t, "testdata/training.json", 1e-5, func(m model, fine bool) []nn.Layer { return m.build(t, fine) },
		func(c nn.CrossEntropy) nn.Loss { return Loss{c} })
}

// model is the description of a model in a file.
type model struct {
	Width, Classes, Image int
	Momentum              float64
}

func (m model) build(t *testing.T, fine bool) []nn.Layer {
	return build(t, Config{Width: m.Width, Classes: m.Classes, Image: m.Image, Momentum: m.Momentum, Fine: fine})
}
