package mlperf

import (
	"fmt"
	"slices"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// maskRCNN has the shapes of a Mask-RCNN (He et al. 2017, "Mask R-CNN", arXiv 1703.06870) with a
// ResNet and a feature pyramid, as the spec has them. What is made of them has the costs of
// its operations, and is not for training: there are neither proposals nor targets.
type maskRCNN struct {
	Image struct {
		Height int `yaml:"height" want:"64..8192"`
		Width  int `yaml:"width" want:"64..8192"`
	} `yaml:"image"`
	Depth   int `yaml:"depth" want:"1..1000"`   // of the backbone
	Frozen  int `yaml:"frozen" want:"0..4"`     // stages that are not trained, and the stem if there is one
	Pyramid int `yaml:"pyramid" want:"1..4096"` // channels
	Anchors int `yaml:"anchors" want:"1..64"`   // of a pixel
	Classes int `yaml:"classes" want:"1..65536"`
	Boxes   struct {
		Crops  int `yaml:"crops" want:"1..65536"` // of an image
		Size   int `yaml:"size" want:"1..64"`     // rows and columns of a crop
		Hidden int `yaml:"hidden" want:"1..65536"`
	} `yaml:"boxes"`
	Masks struct {
		Crops        int `yaml:"crops" want:"1..65536"`
		Size         int `yaml:"size" want:"1..64"`
		Convolutions int `yaml:"convolutions" want:"0..64"`
	} `yaml:"masks"`
}

// bottlenecks are the backbone's bottlenecks in each stage (He et al. 2015, Table 1).
var bottlenecks = map[int][pyramidLevels - 1]int{50: {3, 4, 6, 3}, 101: {3, 4, 23, 3}, 152: {3, 8, 36, 3}}

// pyramidLevels: one of each of the backbone's stages, and one that is half the last.
const pyramidLevels = 5

// convolution is a convolution with a bias, padded by half its kernel. Frozen ones have constants for
// weights.
func convolution(name string, in, out, kernel, stride int, frozen bool) *nn.Conv2D {
	c := nn.NewConv2D(name, nn.Conv2DConfig{
		In: in, Out: out, Kernel: [2]int{kernel, kernel}, Stride: [2]int{stride, stride}, Padding: nn.Pad(kernel / 2), Bias: true,
	})
	c.Weight.Frozen, c.Bias.Frozen = frozen, frozen
	return c
}

// scaled is a convolution whose frozen batch norm is its weights' scale and its bias.
func scaled(name string, in, out, kernel, stride int, frozen bool) *nn.Conv2D {
	c := convolution(name, in, out, kernel, stride, frozen)
	c.Bias.Frozen = true
	return c
}

// bottleneck is a block of the backbone with its stride in the 3x3 convolution.
type bottleneck struct {
	squeeze, middle, expand, shortcut *nn.Conv2D // shortcut: nil if it is the block's input
}

func (b bottleneck) forward(t *nn.Trace, x *graph.Node) *graph.Node {
	short := x
	if b.shortcut != nil {
		short = b.shortcut.Forward(t, x)[0]
	}
	y := t.ReLU(b.squeeze.Forward(t, x)[0])
	y = t.ReLU(b.middle.Forward(t, y)[0])
	return t.ReLU(t.Add(b.expand.Forward(t, y)[0], short))
}

// first is the first stage as one layer: backbone, pyramid, and the scores and offsets of
// anchors on each of its levels, which are its outputs. The pyramid adds each level to the
// next smaller one, by the mean of 2x2 pixels, instead of repeating the pixels of the smaller
// in the larger: F and B of these two are each other's.
func (s maskRCNN) first() nn.Layer {
	var all []*nn.Param
	add := func(c *nn.Conv2D) *nn.Conv2D {
		all = append(all, c.Params()...)
		return c
	}
	stem := add(scaled("stem", 3, 64, 7, 2, s.Frozen > 0))
	in := 64
	var stages [][]bottleneck
	var lateral, after []*nn.Conv2D
	for stage, blocks := range bottlenecks[s.Depth] {
		width, frozen := 64<<stage, stage < s.Frozen
		var of []bottleneck
		for i := range blocks {
			name := func(what string) string { return fmt.Sprintf("stage%d/block%d/%s", stage+1, i+1, what) }
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			b := bottleneck{
				squeeze: add(scaled(name("squeeze"), in, width, 1, 1, frozen)),
				middle:  add(scaled(name("middle"), width, width, 3, stride, frozen)),
				expand:  add(scaled(name("expand"), width, 4*width, 1, 1, frozen)),
			}
			if i == 0 {
				b.shortcut = add(scaled(name("shortcut"), in, 4*width, 1, stride, frozen))
			}
			in = 4 * width
			of = append(of, b)
		}
		stages = append(stages, of)
		lateral = append(lateral, add(convolution(fmt.Sprintf("lateral%d", stage+2), in, s.Pyramid, 1, 1, false)))
		after = append(after, add(convolution(fmt.Sprintf("level%d", stage+2), s.Pyramid, s.Pyramid, 3, 1, false)))
	}
	look := add(convolution("proposals", s.Pyramid, s.Pyramid, 3, 1, false))
	scores := add(convolution("scores", s.Pyramid, s.Anchors, 1, 1, false))
	offsets := add(convolution("offsets", s.Pyramid, 4*s.Anchors, 1, 1, false))

	half := op.Window{KH: 2, KW: 2, SH: 2, SW: 2}
	return nn.Func("first", func(t *nn.Trace, in ...*graph.Node) (out []*graph.Node) {
		x := t.ReLU(stem.Forward(t, in[0])[0])
		x = t.MaxPool(x, op.Window{KH: 3, KW: 3, SH: 2, SW: 2, Top: 1, Left: 1, Bottom: 1, Right: 1})
		var pyramid []*graph.Node
		var merged *graph.Node
		for i, stage := range stages {
			for _, b := range stage {
				x = b.forward(t, x)
			}
			level := lateral[i].Forward(t, x)[0]
			if merged != nil {
				level = t.Add(level, t.AvgPool(merged, half))
			}
			merged = level
			pyramid = append(pyramid, after[i].Forward(t, merged)[0])
		}
		pyramid = append(pyramid, t.MaxPool(pyramid[len(pyramid)-1], op.Window{KH: 1, KW: 1, SH: 2, SW: 2}))
		for _, level := range pyramid {
			y := t.ReLU(look.Forward(t, level)[0])
			out = append(out, scores.Forward(t, y)[0], offsets.Forward(t, y)[0])
		}
		return out
	}, all...)
}

// pixels of all levels of the pyramid, of an image.
func (s maskRCNN) pixels() (n int) {
	h, w := s.Image.Height/4, s.Image.Width/4
	for range pyramidLevels {
		n += h * w
		h, w = (h+1)/2, (w+1)/2
	}
	return n
}

// headBranch is a head of the second stage: the layer after its crops, of which an image has a
// tensor of the given type.
type headBranch struct {
	name        string
	crops, size int // of an image; rows and columns
	input       graph.Type
	layer       nn.Layer
}

// boxes is the branch of boxes: two dense layers on each crop, scores and offsets.
func (s maskRCNN) boxes() headBranch {
	b := s.Boxes
	width := b.Size * b.Size * s.Pyramid
	dense := func(name string, in, out int, a nn.Activation) nn.Layer {
		return nn.NewDense(name, nn.DenseConfig{In: in, Out: out, Activation: a})
	}
	layers := []nn.Layer{
		dense("hidden1", width, b.Hidden, nn.ReLU), dense("hidden2", b.Hidden, b.Hidden, nn.ReLU),
		dense("classes", b.Hidden, s.Classes, nn.Linear), dense("offsets", b.Hidden, 4*s.Classes, nn.Linear),
	}
	return headBranch{"boxes", b.Crops, b.Size, graph.Type{Shape: graph.Shape{b.Crops, width}, DType: graph.F32},
		nn.Func("boxes", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			x := layers[1].Forward(t, layers[0].Forward(t, in...)...)
			return append(layers[2].Forward(t, x...), layers[3].Forward(t, x...)...)
		}, nn.ParamsOf(layers...)...)}
}

// masks is the branch of masks: convolutions of each crop, one that doubles its rows and
// columns, and scores of each pixel. The doubling one, of 2x2 with that stride, is a product
// of each pixel with four pixels' weights. Crops lie below one another in one image; their
// edges meet, which is no other cost than padding.
func (s maskRCNN) masks() headBranch {
	m, c := s.Masks, s.Pyramid
	var convs []nn.Layer
	for i := range m.Convolutions {
		convs = append(convs, convolution(fmt.Sprintf("conv%d", i+1), c, c, 3, 1, false))
	}
	double := nn.NewConv2D("double", nn.Conv2DConfig{In: c, Out: 4 * c, Kernel: [2]int{1, 1}})
	bias := &nn.Param{Name: "double/bias", Shape: graph.Shape{c}, Init: nn.Zeros()}
	logits := convolution("logits", c, s.Classes, 1, 1, false)
	params := slices.Concat(nn.ParamsOf(convs...), []*nn.Param{double.Weight, bias}, logits.Params())
	rows := m.Crops * m.Size
	return headBranch{"masks", m.Crops, m.Size, graph.Type{Shape: graph.Shape{rows, m.Size, c}, DType: graph.F32},
		nn.Func("masks", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			x := in[0]
			for _, v := range convs {
				x = t.ReLU(v.Forward(t, x)[0])
			}
			x = t.Reshape(double.Forward(t, x)[0], rows, m.Size, 2, 2, c)
			x = t.Reshape(t.Transpose(x, 2, 3), 2*rows, 2*m.Size, c)
			x = t.ReLU(t.AddBias(x, t.Param(bias)))
			return logits.Forward(t, x)
		}, params...)}
}

// squares is a loss of the size of the outputs: the mean of their squares.
type squares struct{}

func (squares) Loss(t *nn.Trace, out, _ []*graph.Node) []*graph.Node {
	var sum *graph.Node
	for _, y := range out {
		m := t.Mean(t.Mul(y, y))
		if sum == nil {
			sum = m
			continue
		}
		sum = t.Add(sum, m)
	}
	return []*graph.Node{t.EndLoss(sum)}
}
