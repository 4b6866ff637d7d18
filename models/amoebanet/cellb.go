package amoebanet

import (
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// normalCellB is AmoebaNet-B's, which keeps the size of the images and makes 4c
// channels.
type normalCellB struct {
	*cell
	h2, h4, h5, h6 *unit  // 1x1
	h3, h4b        *chain // separable 3x3
}

func newNormalCellB(b *builder, c *cell) *normalCellB {
	one := func(name string) *unit { return b.unit(name, convolution{In: c.filters, Out: c.filters}) }
	return &normalCellB{
		cell: c,
		h2:   one("h2/1x1"),
		h3:   b.separable("h3/separable3x3", c.filters, c.filters, 3, 1, 1),
		h4:   one("h4/1x1"),
		h4b:  b.separable("h4/separable3x3", c.filters, c.filters, 3, 1, 1),
		h5:   one("h5/1x1"),
		h6:   one("h6/1x1"),
	}
}

func (c *normalCellB) Params() []*nn.Param {
	return params(c.cell, c.h2, c.h3, c.h4, c.h4b, c.h5, c.h6)
}

// Forward takes the pair and returns the next one.
func (c *normalCellB) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	h0, h1 := c.begin(t, in)
	r0, r1 := t.ReLU(h0), t.ReLU(h1) // each read twice
	h2 := t.Add(c.drop(t, "h2/1x1", c.h2.apply(t, r1)), c.drop(t, "h2/max", maxPool(t, h1, 3, 1)))
	h3 := t.Add(c.drop(t, "h3/separable3x3", c.h3.apply(t, r0)), h1)
	h4 := t.Add(c.drop(t, "h4/1x1", c.h4.apply(t, r1)), c.drop(t, "h4/separable3x3", c.h4b.apply(t, r0)))
	h5 := t.Add(c.drop(t, "h5/1x1", c.h5.apply(t, t.ReLU(h2))), h2)
	h6 := t.Add(c.drop(t, "h6/1x1", c.h6.apply(t, t.ReLU(h5))), c.drop(t, "h6/avg", avgPool(t, h1)))
	return end(t.Concat(h0, h3, h4, h6), in)
}

// reductionCellB is AmoebaNet-B's, which halves height and width and makes 2c
// channels. The operations on h0 and h1 have stride 2.
type reductionCellB struct {
	*cell
	h3, h4, h5 *chain // 3x3; separable 5x5 with a dilation of 2; separable 3x3
	h6         *unit  // 1x1
}

func newReductionCellB(b *builder, c *cell) *reductionCellB {
	return &reductionCellB{
		cell: c,
		h3:   b.bottleneck3x3("h3/3x3", c.h1Channels, c.filters, 2),
		h4:   b.separable("h4/separable5x5", c.filters, c.filters, 5, 1, 2),
		h5:   b.separable("h5/separable3x3", c.h1Channels, c.filters, 3, 2, 1),
		h6:   b.unit("h6/1x1", convolution{In: c.filters, Out: c.filters}),
	}
}

func (c *reductionCellB) Params() []*nn.Param { return params(c.cell, c.h3, c.h4, c.h5, c.h6) }

// Forward takes the pair, or the stem's output, and returns the next pair.
func (c *reductionCellB) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	h0, h1 := c.begin(t, in)
	r1 := t.ReLU(h1) // read twice
	h2 := t.Add(c.drop(t, "h2/max2x2", maxPool(t, h0, 2, 2)), c.drop(t, "h2/max3x3", maxPool(t, h0, 3, 2)))
	h3 := t.Add(c.drop(t, "h3/3x3", c.h3.apply(t, r1)), h2)
	h4 := t.Add(c.drop(t, "h4/separable5x5", c.h4.apply(t, t.ReLU(h2))), c.drop(t, "h4/max", maxPool(t, h2, 3, 1)))
	h5 := t.Add(c.drop(t, "h5/separable3x3", c.h5.apply(t, r1)), h3)
	h6 := t.Add(c.drop(t, "h6/1x1", c.h6.apply(t, t.ReLU(h3))), c.drop(t, "h6/avg", avgPool(t, h4)))
	return end(t.Concat(h5, h6), in)
}
