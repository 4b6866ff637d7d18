package ssd

import (
	"cmp"
	"fmt"

	"gpipebench/models/resnet"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Config describes a model.
type Config struct {
	Classes int // of a box, the background included, at least 1; MLPerf's: 81

	// Width is the number of channels of the stem, to which all others are in
	// proportion; an even number, 0: 64.
	Width    int
	Image    int // height and width in pixels; 0: 300
	Channels int // of the images; 0: 3

	// ZeroInit starts the gain of each residual block's last batch norm from 0,
	// as the TPU submission does; zero: from 1.
	ZeroInit bool
	// Momentum is the share of their value that batch norm's moving averages
	// keep at each mini-batch, in [0, 1); 0: 0.9.
	Momentum float64

	// Fine splits each residual block into two pipeline layers, one per
	// convolution.
	Fine bool
}

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case c.Classes < 1:
		return fmt.Errorf("ssd: Classes is %d, want at least 1", c.Classes)
	case d.Width < 2 || d.Width%2 != 0:
		return fmt.Errorf("ssd: Width is %d, want an even number of 2 or more (0: 64)", c.Width)
	case d.Image < 1:
		return fmt.Errorf("ssd: Image is %d, want at least 1 (0: 300)", c.Image)
	case d.Channels < 1:
		return fmt.Errorf("ssd: Channels is %d, want at least 1 (0: 3)", c.Channels)
	case !(c.Momentum >= 0 && c.Momentum < 1):
		return fmt.Errorf("ssd: Momentum is %v, want at least 0 and less than 1 (0: 0.9)", c.Momentum)
	}
	return nil
}

// DefaultImage is the height and width of images in MLPerf's benchmark.
const DefaultImage = 300

func (c Config) withDefaults() Config {
	c.Width, c.Image, c.Channels = cmp.Or(c.Width, 64), cmp.Or(c.Image, DefaultImage), cmp.Or(c.Channels, 3)
	return c
}

// featureMap is a map on which boxes are detected. All but the first are made of
// the one before by a 1x1 convolution to squeeze channels and a 3x3 one, each with
// a bias and a ReLU.
type featureMap struct {
	size     int // height and width
	channels int
	boxes    int // default boxes of a pixel
	squeeze  int // 0: the map is the backbone's output
	stride   int // of the 3x3 convolution; 1: nothing is padded
}

// maps lists the maps. One that the map before it is too small for is left out, and
// so are all after it: of images of 300 pixels there are six.
func (c Config) maps() []featureMap {
	c = c.withDefaults()
	half := func(n int) int { return (n + 1) / 2 }
	w := c.Width
	all := []featureMap{
		{half(half(half(c.Image))), 4 * w, 4, 0, 0}, // stem, its pool, and the second stage halve
		{0, 8 * w, 6, 4 * w, 2},
		{0, 8 * w, 6, 4 * w, 2},
		{0, 4 * w, 6, 2 * w, 2},
		{0, 4 * w, 4, 2 * w, 1},
		{0, 4 * w, 4, 2 * w, 1},
	}
	for i := 1; i < len(all); i++ {
		size := all[i-1].size - 2
		if all[i].stride == 2 {
			size = half(all[i-1].size)
		}
		if size < 1 {
			return all[:i]
		}
		all[i].size = size
	}
	return all
}

// New builds a model. Its pipeline layers are the backbone's, "stem",
// "stage1/block1", ..., "stage3/block6", then "map1" to "map6", which make a map
// and run its heads, and "boxes", which joins what these found. Its inputs are
// images (n, h, w, channels), its outputs for each default box the scores of the
// classes (n, boxes, classes) and the offsets of the box (n, boxes, 4).
func New(c Config) ([]nn.Layer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	layers, channels := resnet.Config{
		Blocks: [4]int{3, 4, 6, 0}, Basic: true, Width: c.Width, Classes: c.Classes, Image: c.Image, Channels: c.Channels,
		ZeroInit: c.ZeroInit, Momentum: c.Momentum, Fine: c.Fine,
	}.Backbone([4]int{1, 2, 1, 1})
	maps := c.maps()
	for i, m := range maps {
		layers = append(layers, c.detector(fmt.Sprintf("map%d", i+1), channels, m, i == len(maps)-1))
		channels = m.channels
	}
	return append(layers, nn.Func("boxes", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		nn.WantTuple("ssd", "boxes", in, 2*len(maps))
		var scores, offsets []*graph.Node
		for i := range maps {
			scores = append(scores, t.Flatten(in[2*i]))
			offsets = append(offsets, t.Flatten(in[2*i+1]))
		}
		return []*graph.Node{
			t.Reshape(t.Concat(scores...), -1, c.Classes),
			t.Reshape(t.Concat(offsets...), -1, 4),
		}
	})), nil
}
