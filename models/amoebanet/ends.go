package amoebanet

import (
	"slices"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// stem builds the first convolution and its batch norm.
func (b *builder) stem() nn.Layer {
	c := convolution{In: b.Channels, Out: b.Filters / 4, Kernel: [2]int{3, 3}, Stride: 2, Padding: nn.Same}
	if b.Official {
		c.Out, c.Padding = 32, nn.Valid
	}
	if b.Delayed {
		c.Stride = 1
	}
	b.newest = c.Out
	return b.unit("conv", c)
}

// classifier is the last layer: global average pool, dropout and a projection
// to the classes. It takes the pair, and auxiliary logits if there are any, and
// returns the logits (n, classes) and the auxiliary ones.
func (b *builder) classifier() nn.Layer {
	head := nn.Sequential("head",
		nn.NewGlobalAvgPool("pool"),
		nn.NewDropout("dropout", b.Dropout),
		nn.NewDense("", nn.DenseConfig{In: b.newest, Out: b.Classes}),
	)
	return nn.Func("", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		x := in[0]
		if b.Official {
			x = t.ReLU(x)
		}
		return append(head.Forward(t, x), in[2:]...)
	}, head.Params()...)
}

// auxiliary is [A]'s auxiliary head: ReLU, a 5x5 average pool of stride 3, a
// 1x1 convolution, a convolution as large as the remaining image, and a
// classifier, with a batch norm and a ReLU after each convolution. Images
// smaller than 5x5 are pooled whole. It takes the pair and, in training, adds the
// auxiliary logits (n, classes).
//
// The last batch norm has one pixel per image: it needs at least two examples
// in a micro-batch.
func (b *builder) auxiliary() nn.Layer {
	size := (b.stemSize() + 7) / 8 // three reductions after the stem
	window := min(5, size)
	left := (size-window)/3 + 1
	narrow, wide := int(128*b.AuxScale), int(768*b.AuxScale)
	head := nn.Sequential("aux",
		nn.NewAvgPool("aux/pool", nn.PoolConfig{Kernel: [2]int{window, window}, Stride: [2]int{3, 3}}),
		b.unit("aux/proj", convolution{In: b.newest, Out: narrow, ReLU: true}),
		b.unit("aux/full", convolution{In: narrow, Out: wide, Kernel: [2]int{left, left}, ReLU: true}),
		nn.NewGlobalAvgPool("aux/flat"), // of a single pixel
		nn.NewDense("aux", nn.DenseConfig{In: wide, Out: b.Classes}),
	)
	return nn.Func("aux", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		if !t.Train {
			return in
		}
		return append(slices.Clip(in), head.Forward(t, t.ReLU(in[0]))...)
	}, head.Params()...)
}
