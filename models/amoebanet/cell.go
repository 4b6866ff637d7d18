package amoebanet

import (
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// cell is the common part of both kinds of cells: c filters, and the two values
// from which their operations start, made from the incoming pair.
type cell struct {
	filters int
	// h0 is a 1x1 convolution of the newest output.
	h0 *unit
	// h1 brings the output before to the size of the newest one: by a
	// factorised reduction after a reduction cell, else by a 1x1 convolution if
	// its channels differ, else unchanged.
	h1         nn.Layer // nil: unchanged
	h1Channels int
	dropPath   float32
	rise       int // steps over which that rate rises from 0; 0: it does not
}

// cell builds the beginning of the next cell; stride is the stride of its
// incoming convolutions.
func (b *builder) cell(filters, stride int) *cell {
	c := &cell{filters: filters, h1Channels: filters}
	c.h0 = b.unit("h0", convolution{In: b.newest, Out: filters, Stride: stride})
	before := b.before
	if before == 0 {
		before = b.newest // the stem's output takes both roles
	}
	switch {
	case b.reduced:
		c.h1 = b.factorized("h1", before, filters, 2*stride)
	case b.before == 0 && b.Official:
		c.h1Channels = before
	case before != filters || stride > 1:
		c.h1 = b.unit("h1", convolution{In: before, Out: filters, Stride: stride})
	}
	c.dropPath, c.rise = b.DropPath, b.DropPathSteps
	if !b.DropPathEven {
		c.dropPath = b.DropPath * float32(b.reductions+b.normals) / float32(b.Layers+4)
	}
	return c
}

func (c *cell) Name() string { return "" } // its parts have names

func (c *cell) Params() []*nn.Param {
	if c.h1 == nil {
		return c.h0.Params()
	}
	return params(c.h0, c.h1)
}

// begin computes h0 and h1 from the newest output and the one before. Both
// begin with a ReLU.
func (c *cell) begin(t *nn.Trace, in []*graph.Node) (h0, h1 *graph.Node) {
	newest := t.ReLU(in[0])
	before, beforeReLU := in[0], newest
	if len(in) > 1 {
		before, beforeReLU = in[1], nil
	}
	h0 = c.h0.apply(t, newest)
	if c.h1 == nil {
		return h0, before
	}
	if beforeReLU == nil {
		beforeReLU = t.ReLU(before)
	}
	return h0, c.h1.Forward(t, beforeReLU)[0]
}

// drop applies drop-path to one branch.
func (c *cell) drop(t *nn.Trace, branch string, x *graph.Node) *graph.Node {
	return nn.NewDropPath(branch+"/drop-path", c.dropPath).Rising(c.rise).Forward(t, x)[0]
}

// end returns the tuple to pass on: the cell's output, the newest output so
// far, and everything that came with the pair.
func end(out *graph.Node, in []*graph.Node) []*graph.Node {
	flow := []*graph.Node{out, in[0]}
	if len(in) > 2 {
		flow = append(flow, in[2:]...)
	}
	return flow
}

// normalCell is AmoebaNet-D's, which keeps the size of the images and makes 4c
// channels.
type normalCell struct {
	*cell
	h2, h4, h6 *unit // 1x1
	h3, h4b    *chain
}

func newNormalCell(b *builder, c *cell) *normalCell {
	return &normalCell{
		cell: c,
		h2:   b.unit("h2/1x1", convolution{In: c.filters, Out: c.filters}),
		h3:   b.bottleneck1x7("h3/1x7_7x1", c.filters),
		h4:   b.unit("h4/1x1", convolution{In: c.filters, Out: c.filters}),
		h4b:  b.bottleneck1x7("h4/1x7_7x1", c.filters),
		h6:   b.unit("h6/1x1", convolution{In: c.filters, Out: c.filters}),
	}
}

func (c *normalCell) Params() []*nn.Param {
	return params(c.cell, c.h2, c.h3, c.h4, c.h4b, c.h6)
}

// Forward takes the pair and returns the next one.
func (c *normalCell) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	h0, h1 := c.begin(t, in)
	r0 := t.ReLU(h0) // read three times
	h2 := t.Add(c.drop(t, "h2/1x1", c.h2.apply(t, t.ReLU(h1))), c.drop(t, "h2/max", maxPool(t, h1, 3, 1)))
	h3 := t.Add(c.drop(t, "h3/1x7_7x1", c.h3.apply(t, r0)), h1)
	h4 := t.Add(c.drop(t, "h4/1x1", c.h4.apply(t, r0)), c.drop(t, "h4/1x7_7x1", c.h4b.apply(t, r0)))
	h5 := t.Add(c.drop(t, "h5/max", maxPool(t, h2, 3, 1)), h2)
	h6 := t.Add(c.drop(t, "h6/1x1", c.h6.apply(t, t.ReLU(h5))), c.drop(t, "h6/avg", avgPool(t, h1)))
	return end(t.Concat(h0, h3, h4, h6), in)
}

// reductionCell is AmoebaNet-D's, which halves height and width and makes 3c
// channels. The operations on h0 and h1 have stride 2.
type reductionCell struct {
	*cell
	h3 *chain // 3x3
	h4 *chain // 1x7_7x1
	// h5 brings the pooled h1 to the cell's filters, in [A]'s first cell; else
	// nil.
	h5 *unit
	h6 *unit // 1x1
}

func newReductionCell(b *builder, c *cell) *reductionCell {
	r := &reductionCell{
		cell: c,
		h3:   b.bottleneck3x3("h3/3x3", c.h1Channels, c.filters, 2),
		h4:   b.bottleneck1x7("h4/1x7_7x1", c.filters),
		h6:   b.unit("h6/1x1", convolution{In: c.filters, Out: c.filters}),
	}
	if c.h1Channels != c.filters {
		r.h5 = b.unit("h5/1x1", convolution{In: c.h1Channels, Out: c.filters})
	}
	return r
}

func (c *reductionCell) Params() []*nn.Param {
	if c.h5 != nil {
		return params(c.cell, c.h3, c.h4, c.h5, c.h6)
	}
	return params(c.cell, c.h3, c.h4, c.h6)
}

// Forward takes the pair, or the stem's output, and returns the next pair.
func (c *reductionCell) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	h0, h1 := c.begin(t, in)
	h2 := t.Add(c.drop(t, "h2/max2x2", maxPool(t, h0, 2, 2)), c.drop(t, "h2/max3x3", maxPool(t, h0, 3, 2)))
	h3 := t.Add(c.drop(t, "h3/3x3", c.h3.apply(t, t.ReLU(h1))), h2)
	h4 := t.Add(c.drop(t, "h4/1x7_7x1", c.h4.apply(t, t.ReLU(h2))), c.drop(t, "h4/max", maxPool(t, h2, 3, 1)))
	pooled := maxPool(t, h1, 2, 2)
	if c.h5 != nil {
		pooled = c.h5.apply(t, pooled)
	}
	h5 := t.Add(c.drop(t, "h5/max", pooled), h3)
	h6 := t.Add(c.drop(t, "h6/1x1", c.h6.apply(t, t.ReLU(h3))), c.drop(t, "h6/avg", avgPool(t, h2)))
	return end(t.Concat(h4, h5, h6), in)
}

// params lists the parameters of all parts.
func params(parts ...interface{ Params() []*nn.Param }) (all []*nn.Param) {
	for _, p := range parts {
		all = append(all, p.Params()...)
	}
	return all
}
