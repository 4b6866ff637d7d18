package amoebanet

import (
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
// to the classes.
type classifier struct {
	relu    bool // before the pool
	pool    *nn.GlobalAvgPool
	dropout *nn.Dropout
	dense   *nn.Dense
}

func (b *builder) classifier() *classifier {
	return &classifier{
		b.Official,
		nn.NewGlobalAvgPool("pool"),
		nn.NewDropout("dropout", b.Dropout),
		nn.NewDense("", nn.DenseConfig{In: b.newest, Out: b.Classes}),
	}
}

func (c *classifier) Name() string { return "" } // its parts have names

func (c *classifier) Params() []*nn.Param { return c.dense.Params() }

// Forward takes the pair, and auxiliary logits if there are any, and returns
// the logits (n, classes) and the auxiliary ones.
func (c *classifier) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	x := in[0]
	if c.relu {
		x = t.ReLU(x)
	}
	h := c.pool.Forward(t, x)
	h = c.dropout.Forward(t, h...)
	return append(c.dense.Forward(t, h...), in[2:]...)
}

// auxiliary is [A]'s auxiliary head: ReLU, a 5x5 average pool of stride 3, a
// 1x1 convolution, a convolution as large as the remaining image, and a
// classifier, with a batch norm and a ReLU after each convolution. Images
// smaller than 5x5 are pooled whole.
//
// The last batch norm has one pixel per image: it needs at least two examples
// in a micro-batch.
type auxiliary struct {
	pool       *nn.Pool
	proj, full *unit
	flat       *nn.GlobalAvgPool // of a single pixel
	dense      *nn.Dense
}

func (b *builder) auxiliary() *auxiliary {
	size := (b.stemSize() + 7) / 8 // three reductions after the stem
	window := min(5, size)
	left := (size-window)/3 + 1
	narrow, wide := int(128*b.AuxScale), int(768*b.AuxScale)
	return &auxiliary{
		nn.NewAvgPool("aux/pool", nn.PoolConfig{Kernel: [2]int{window, window}, Stride: [2]int{3, 3}}),
		b.unit("aux/proj", convolution{In: b.newest, Out: narrow, ReLU: true}),
		b.unit("aux/full", convolution{In: narrow, Out: wide, Kernel: [2]int{left, left}, ReLU: true}),
		nn.NewGlobalAvgPool("aux/flat"),
		nn.NewDense("aux", nn.DenseConfig{In: wide, Out: b.Classes}),
	}
}

func (a *auxiliary) Name() string { return "aux" }

func (a *auxiliary) Params() []*nn.Param { return params(a.proj, a.full, a.dense) }

// Forward takes the pair and, in training, adds the auxiliary logits (n,
// classes).
func (a *auxiliary) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	if !t.Train {
		return in
	}
	h := a.pool.Forward(t, t.ReLU(in[0]))
	for _, l := range []nn.Layer{a.proj, a.full, a.flat, a.dense} {
		h = l.Forward(t, h...)
	}
	return append(in[:len(in):len(in)], h...)
}
