package amoebanet

import (
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// cell is the common part of all kinds of cells: c filters, and the two values
// from which their operations start, made from the incoming pair.
type cell struct {
	filters int
	// h0 is a 1x1 convolution of the newest output.
	h0 nn.Layer
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

// layer makes a layer of the cell's operations. It takes the pair, or the stem's
// output, and returns the next pair: what output makes of h0 and h1, and the newest
// output so far; then everything that came with the pair.
func (c *cell) layer(output func(t *nn.Trace, h0, h1 *graph.Node) *graph.Node, operations ...nn.Layer) nn.Layer {
	parts := []nn.Layer{c.h0}
	if c.h1 != nil {
		parts = append(parts, c.h1)
	}
	return nn.Func("", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		h0, h1 := c.begin(t, in)
		return append([]*graph.Node{output(t, h0, h1), in[0]}, in[min(2, len(in)):]...)
	}, nn.ParamsOf(append(parts, operations...)...)...)
}

// begin computes h0 and h1 from the newest output and the one before. Both
// begin with a ReLU.
func (c *cell) begin(t *nn.Trace, in []*graph.Node) (h0, h1 *graph.Node) {
	newest := t.ReLU(in[0])
	before, beforeReLU := in[0], newest
	if len(in) > 1 {
		before, beforeReLU = in[1], nil
	}
	h0 = apply(t, c.h0, newest)
	if c.h1 == nil {
		return h0, before
	}
	if beforeReLU == nil {
		beforeReLU = t.ReLU(before)
	}
	return h0, apply(t, c.h1, beforeReLU)
}

// drop applies drop-path to one branch.
func (c *cell) drop(t *nn.Trace, branch string, x *graph.Node) *graph.Node {
	return apply(t, nn.NewDropPath(branch+"/drop-path", c.dropPath).Rising(c.rise), x)
}

// normalD builds AmoebaNet-D's normal cell, which keeps the size of the images and
// makes 4c channels.
func (b *builder) normalD(c *cell) nn.Layer {
	op2 := b.one("h2/1x1", c)
	op3 := b.bottleneck1x7("h3/1x7_7x1", c.filters)
	op4, op4b := b.one("h4/1x1", c), b.bottleneck1x7("h4/1x7_7x1", c.filters)
	op6 := b.one("h6/1x1", c)
	return c.layer(func(t *nn.Trace, h0, h1 *graph.Node) *graph.Node {
		r0 := t.ReLU(h0) // read three times
		h2 := t.Add(c.drop(t, "h2/1x1", apply(t, op2, t.ReLU(h1))), c.drop(t, "h2/max", maxPool(t, h1, 3, 1)))
		h3 := t.Add(c.drop(t, "h3/1x7_7x1", apply(t, op3, r0)), h1)
		h4 := t.Add(c.drop(t, "h4/1x1", apply(t, op4, r0)), c.drop(t, "h4/1x7_7x1", apply(t, op4b, r0)))
		h5 := t.Add(c.drop(t, "h5/max", maxPool(t, h2, 3, 1)), h2)
		h6 := t.Add(c.drop(t, "h6/1x1", apply(t, op6, t.ReLU(h5))), c.drop(t, "h6/avg", avgPool(t, h1)))
		return t.Concat(h0, h3, h4, h6)
	}, op2, op3, op4, op4b, op6)
}

// reductionD builds AmoebaNet-D's reduction cell, which halves height and width and
// makes 3c channels. The operations on h0 and h1 have stride 2.
func (b *builder) reductionD(c *cell) nn.Layer {
	op3 := b.bottleneck3x3("h3/3x3", c.h1Channels, c.filters, 2)
	op4 := b.bottleneck1x7("h4/1x7_7x1", c.filters)
	// op5 brings the pooled h1 to the cell's filters, in [A]'s first cell.
	op5 := nn.Sequential("h5/1x1")
	if c.h1Channels != c.filters {
		op5 = b.unit("h5/1x1", convolution{In: c.h1Channels, Out: c.filters})
	}
	op6 := b.one("h6/1x1", c)
	return c.layer(func(t *nn.Trace, h0, h1 *graph.Node) *graph.Node {
		h2 := t.Add(c.drop(t, "h2/max2x2", maxPool(t, h0, 2, 2)), c.drop(t, "h2/max3x3", maxPool(t, h0, 3, 2)))
		h3 := t.Add(c.drop(t, "h3/3x3", apply(t, op3, t.ReLU(h1))), h2)
		h4 := t.Add(c.drop(t, "h4/1x7_7x1", apply(t, op4, t.ReLU(h2))), c.drop(t, "h4/max", maxPool(t, h2, 3, 1)))
		h5 := t.Add(c.drop(t, "h5/max", apply(t, op5, maxPool(t, h1, 2, 2))), h3)
		h6 := t.Add(c.drop(t, "h6/1x1", apply(t, op6, t.ReLU(h3))), c.drop(t, "h6/avg", avgPool(t, h2)))
		return t.Concat(h4, h5, h6)
	}, op3, op4, op5, op6)
}

// normalB builds AmoebaNet-B's normal cell, which keeps the size of the images and
// makes 4c channels.
func (b *builder) normalB(c *cell) nn.Layer {
	op2 := b.one("h2/1x1", c)
	op3 := b.separable("h3/separable3x3", c.filters, c.filters, 3, 1, 1)
	op4, op4b := b.one("h4/1x1", c), b.separable("h4/separable3x3", c.filters, c.filters, 3, 1, 1)
	op5, op6 := b.one("h5/1x1", c), b.one("h6/1x1", c)
	return c.layer(func(t *nn.Trace, h0, h1 *graph.Node) *graph.Node {
		r0, r1 := t.ReLU(h0), t.ReLU(h1) // each read twice
		h2 := t.Add(c.drop(t, "h2/1x1", apply(t, op2, r1)), c.drop(t, "h2/max", maxPool(t, h1, 3, 1)))
		h3 := t.Add(c.drop(t, "h3/separable3x3", apply(t, op3, r0)), h1)
		h4 := t.Add(c.drop(t, "h4/1x1", apply(t, op4, r1)), c.drop(t, "h4/separable3x3", apply(t, op4b, r0)))
		h5 := t.Add(c.drop(t, "h5/1x1", apply(t, op5, t.ReLU(h2))), h2)
		h6 := t.Add(c.drop(t, "h6/1x1", apply(t, op6, t.ReLU(h5))), c.drop(t, "h6/avg", avgPool(t, h1)))
		return t.Concat(h0, h3, h4, h6)
	}, op2, op3, op4, op4b, op5, op6)
}

// reductionB builds AmoebaNet-B's reduction cell, which halves height and width and
// makes 2c channels. The operations on h0 and h1 have stride 2.
func (b *builder) reductionB(c *cell) nn.Layer {
	op3 := b.bottleneck3x3("h3/3x3", c.h1Channels, c.filters, 2)
	op4 := b.separable("h4/separable5x5", c.filters, c.filters, 5, 1, 2)
	op5 := b.separable("h5/separable3x3", c.h1Channels, c.filters, 3, 2, 1)
	op6 := b.one("h6/1x1", c)
	return c.layer(func(t *nn.Trace, h0, h1 *graph.Node) *graph.Node {
		r1 := t.ReLU(h1) // read twice
		h2 := t.Add(c.drop(t, "h2/max2x2", maxPool(t, h0, 2, 2)), c.drop(t, "h2/max3x3", maxPool(t, h0, 3, 2)))
		h3 := t.Add(c.drop(t, "h3/3x3", apply(t, op3, r1)), h2)
		h4 := t.Add(c.drop(t, "h4/separable5x5", apply(t, op4, t.ReLU(h2))), c.drop(t, "h4/max", maxPool(t, h2, 3, 1)))
		h5 := t.Add(c.drop(t, "h5/separable3x3", apply(t, op5, r1)), h3)
		h6 := t.Add(c.drop(t, "h6/1x1", apply(t, op6, t.ReLU(h3))), c.drop(t, "h6/avg", avgPool(t, h4)))
		return t.Concat(h5, h6)
	}, op3, op4, op5, op6)
}
