// Package resnet builds residual networks (He et al. 2016) as lists of pipeline
// layers: the bottleneck networks of 50, 101 and 152 layers that the first
// version of the GPipe paper measures, in torchvision's form ("v1.5": the
// stride of a block is in its 3x3 convolution), and the basic one of 34 layers,
// whose beginning detectors use (package ssd). The one of 20 layers is the paper's for small
// images (section 4.2, CIFAR-10): a 3x3 stem without a stride or a pool, and three stages of basic blocks. Shortcuts
// of another shape are 1x1 convolutions there, too, where the paper pads with zeros.
//
// Parts of a stage can divide all convolutions by channels, and the classifier by its inputs.
package resnet

import (
	"cmp"
	"fmt"

	"gpipebench/nn"
)

// Config describes a model.
type Config struct {
	Depth   int    // 20, 34, 50, 101 or 152; 0: Blocks
	Blocks  [4]int // blocks of each stage, at least 1, instead of a Depth
	Basic   bool   // Blocks are basic ones of two 3x3 convolutions, as those of 34 layers; zero: bottlenecks
	Width   int    // channels of the stem and of the first stage's 3x3 convolutions; 0: 64, of 20 layers 16
	Classes int    // at least 1

	Image    int // height and width in pixels; 0: 224
	Channels int // of the images; 0: 3

	// ZeroInit starts the gain of each block's last batch norm from 0, so that
	// blocks start as identities (Goyal et al. 2017, section 5.1); zero: from
	// 1.
	ZeroInit bool

	// Momentum is the share of their value that batch norm's moving averages
	// keep at each mini-batch, in [0, 1); 0: 0.9, as in torchvision.
	Momentum float64

	// Fine splits each block into two or three pipeline layers, one per
	// convolution, for more even partitions than blocks allow. Parameters, their paths and
	// so every bit stay the same.
	Fine bool
}

var depths = map[int][4]int{20: {3, 3, 3, 0}, 34: {3, 4, 6, 3}, 50: {3, 4, 6, 3}, 101: {3, 4, 23, 3}, 152: {3, 8, 36, 3}}

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case c.Depth != 0 && c.Blocks != [4]int{}:
		return fmt.Errorf("resnet: Depth and Blocks: want one of them")
	case c.Depth != 0 && c.Basic:
		return fmt.Errorf("resnet: Depth and Basic: want Basic with Blocks only")
	case c.Depth != 0 && d.Blocks == [4]int{}:
		return fmt.Errorf("resnet: Depth is %d, want 20, 34, 50, 101 or 152, or Blocks", c.Depth)
	case !c.small() && min(d.Blocks[0], d.Blocks[1], d.Blocks[2], d.Blocks[3]) < 1:
		return fmt.Errorf("resnet: Blocks is %v, want at least 1 in each stage", c.Blocks)
	case d.Width < 1:
		return fmt.Errorf("resnet: Width is %d, want at least 1 (0: 64)", c.Width)
	case c.Classes < 1:
		return fmt.Errorf("resnet: Classes is %d, want at least 1", c.Classes)
	case d.Image < 1:
		return fmt.Errorf("resnet: Image is %d, want at least 1 (0: 224)", c.Image)
	case d.Channels < 1:
		return fmt.Errorf("resnet: Channels is %d, want at least 1 (0: 3)", c.Channels)
	case !(c.Momentum >= 0 && c.Momentum < 1):
		return fmt.Errorf("resnet: Momentum is %v, want at least 0 and less than 1 (0: 0.9)", c.Momentum)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Depth != 0 {
		c.Blocks, c.Basic = depths[c.Depth], c.Depth < 50
	}
	if c.small() {
		c.Width = cmp.Or(c.Width, 16)
	}
	c.Width, c.Image, c.Channels = cmp.Or(c.Width, 64), cmp.Or(c.Image, 224), cmp.Or(c.Channels, 3)
	return c
}

// small reports whether the network is that for small images.
func (c Config) small() bool { return c.Depth == 20 }

// New builds a model with one pipeline layer per block: "stem",
// "stage1/block1", "stage1/block2", ..., "stage4/block3", ... and "classifier".
// Its inputs are images (n, h, w, channels), its outputs logits (n, classes).
func New(c Config) ([]nn.Layer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	layers, channels := c.Backbone([4]int{1, 2, 2, 2})
	return append(layers, nn.Sequential("classifier",
		nn.NewGlobalAvgPool("pool"),
		nn.NewDense("", nn.DenseConfig{In: channels, Out: c.Classes, ByInputs: true}),
	)), nil
}

// Backbone builds the model's layers before the classifier, for networks that end
// otherwise, with the given stride of each stage's first block. It returns the channels
// of the last one's output as well. A stage without blocks is left out. Neither the
// configuration nor the strides are checked.
func (c Config) Backbone(strides [4]int) (layers []nn.Layer, channels int) {
	c = c.withDefaults()
	layers = []nn.Layer{nn.Sequential("stem",
		conv("conv", nn.Conv2DConfig{In: c.Channels, Out: c.Width, Kernel: [2]int{3, 3}, Padding: nn.Pad(1)}),
		c.norm("conv", c.Width, true),
	)}
	if !c.small() {
		layers[0] = nn.Sequential("stem",
			conv("conv", nn.Conv2DConfig{In: c.Channels, Out: c.Width, Kernel: [2]int{7, 7}, Stride: [2]int{2, 2}, Padding: nn.Pad(3)}),
			c.norm("conv", c.Width, true),
			nn.NewMaxPool("pool", nn.PoolConfig{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Padding: nn.Pad(1)}),
		)
	}
	channels = c.Width
	for stage, blocks := range c.Blocks {
		for i := range blocks {
			b := block{
				name: fmt.Sprintf("stage%d/block%d", stage+1, i+1),
				in:   channels, width: c.Width << stage, stride: 1,
			}
			if i == 0 {
				b.stride = strides[stage]
			}
			layers = append(layers, c.block(b)...)
			channels = c.expansion() * b.width
		}
	}
	return layers, channels
}
