package gpipe

import (
	"testing"

	"gpipebench/models/amoebanet"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// TestDescribeSmallImages: a network whose batch norm sees a single pixel per image
// cannot be traced for one example, and is described per example all the same.
func TestDescribeSmallImages(t *testing.T) {
	describe := func(image int) *Description {
		c := amoebanet.Config{Layers: 3, Filters: 8, Classes: 10, Image: image}
		layers, err := amoebanet.New(c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Pipeline{Layers: layers, Loss: nn.CrossEntropy{}}.Describe(Input{
			Examples: 2, Inputs: []graph.Type{c.Input()}, Targets: []graph.Type{{Shape: graph.Shape{}, DType: graph.I32}},
		})
		if err != nil {
			t.Fatalf("%d pixels: %v", image, err)
		}
		return d
	}
	small, large := describe(32), describe(64)
	for i, l := range small.Layers[:len(small.Layers)-1] {
		// Four times the pixels, and the same parameters and statistics.
		if four := large.Layers[i]; four.FLOPs != 4*l.FLOPs || four.Params != l.Params || four.SavedBytes <= 3*l.SavedBytes || four.SavedBytes > 4*l.SavedBytes+8*4*l.Params {
			t.Errorf("%s: %d FLOPs and %d bytes at 32 pixels, %d and %d at 64", l.Name, l.FLOPs, l.SavedBytes, four.FLOPs, four.SavedBytes)
		}
	}
	if got := small.Layers[len(small.Layers)-1].FLOPs; got != 2*128*10 {
		t.Errorf("%d FLOPs of the classifier, want %d", got, 2*128*10)
	}
}
