package resnet

import (
	"testing"

	"gpipebench/models/internal/imageoracle"
	"gpipebench/nn"
)

// TestBlocksAgainstPyTorch: the stem, and bottlenecks with and without a
// convolution in their shortcut. PyTorch's own run in float32 is off by 3.4e-7.
func TestBlocksAgainstPyTorch(t *testing.T) {
	imageoracle.Layers(t, "testdata/blocks.json", func(m model) []nn.Layer { return m.build(t, false) })
}

// TestTrainingAgainstPyTorch: two mini-batches of several micro-batches of a
// small model, in either cut, and with sums in four blocks, as parts divide
// them. PyTorch's own run in float32 is off by 8e-7, in gradients by 2.2e-6
// (resnet.py --float32), ours by 1e-6.
func TestTrainingAgainstPyTorch(t *testing.T) {
	imageoracle.InBothCuts(t, "testdata/training.json", 2e-6, func(m model, fine bool) []nn.Layer { return m.build(t, fine) },
		func(c nn.CrossEntropy) nn.Loss { return c }, 4)
}

// model is the description of a model in a file.
type model struct {
	Blocks                [4]int
	Width, Classes, Image int
	Momentum              float64
}

func (m model) build(t *testing.T, fine bool) []nn.Layer {
	return build(t, Config{
		Blocks: m.Blocks, Width: m.Width, Classes: m.Classes, Image: m.Image, Momentum: m.Momentum, Fine: fine,
	})
}
