package workload

import (
	"fmt"
	"slices"

	"gpipebench/models/amoebanet"
	"gpipebench/models/resnet"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// The networks that classify images.
const AmoebaNet = "amoebanetd"

// resNets are the depths of the ResNets by their models' names.
var resNets = map[string]int{"resnet50": 50, "resnet101": 101, "resnet152": 152}

var visionModels = []string{AmoebaNet, "resnet50", "resnet101", "resnet152"}

// SeesImages tells whether a model of that name classifies images.
func SeesImages(name string) bool { return slices.Contains(visionModels, name) }

// Images tells whether the network takes images.
func (m Model) Images() bool { return SeesImages(m.Name) || m.Name == ConvNet }

// buildVision makes the layers of amoebanetd or a ResNet.
func (m Model) buildVision() ([]nn.Layer, error) {
	if m.Name == ConvNet {
		return m.buildConvNet()
	}
	if err := m.validateVision(); err != nil {
		return nil, err
	}
	if m.Name == AmoebaNet {
		return amoebanet.New(amoebanet.Config{
			Layers: m.Layers, Filters: m.Filters, Classes: m.Classes, Image: m.Image, Channels: m.Channels,
			DropPath: float32(m.DropPath), Dropout: float32(m.Dropout), Aux: m.Aux != 0,
			Official: m.Official, Delayed: m.Delayed, Momentum: m.BNMomentum,
		})
	}
	return resnet.New(resnet.Config{
		Depth: resNets[m.Name], Width: m.Width, Classes: m.Classes, Image: m.Image, Channels: m.Channels,
		ZeroInit: m.ZeroInit, Momentum: m.BNMomentum, Fine: m.Fine,
	})
}

// validateVision reports what the model's builder does not see.
func (m Model) validateVision() error {
	switch isResNet := m.Name != AmoebaNet; {
	case !(m.Aux >= 0 && m.Aux <= 1e6):
		return fmt.Errorf("an auxiliary head's weight of %v: want a positive number, or 0 for no head", m.Aux)
	case isResNet && (m.Aux != 0 || m.DropPath != 0 || m.Official || m.Delayed):
		return fmt.Errorf("%s has no auxiliary head, no drop-path and no variants: want %s", m.Name, AmoebaNet)
	case isResNet && m.Dropout != 0:
		return fmt.Errorf("%s has no dropout: want a rate of 0", m.Name)
	case !isResNet && m.Fine:
		return fmt.Errorf("%s is cut at its cells: want a coarse split", m.Name)
	case m.ClipLogits != 0:
		return fmt.Errorf("%s does not clip logits: want no limit", m.Name)
	}
	return nil
}

// imageType is one image.
func (m Model) imageType() graph.Type {
	if m.Name == AmoebaNet {
		return amoebanet.Config{Image: m.Image, Channels: m.Channels}.Input()
	}
	return resnet.Config{Image: m.Image, Channels: m.Channels}.Input()
}

// noise is a mini-batch of images that show nothing, of any classes.
func (m Model) noise(examples int, seed uint64) nn.Batch {
	random := philox.NewStream(philox.KeyOf(seed, "experiments/images"), 0)
	shape := m.imageType().Shape
	pixels, classes := make([]float32, examples*shape.Elems()), make([]int32, examples)
	random.Fill(pixels, philox.NormalWords, func(r *philox.Stream) float32 { return float32(r.Normal()) })
	for i := range classes {
		classes[i] = int32(random.Intn(m.Classes))
	}
	return nn.Batch{
		Inputs:  []nn.Tensor{{Shape: append([]int{examples}, shape...), F32: pixels}},
		Targets: []nn.Tensor{{Shape: []int{examples}, I32: classes}}, Count: examples,
	}
}
