package graph

// MaxPoolOp is the largest pixel of each window, channel by channel; positions
// outside the image take no part.
type MaxPoolOp struct {
	noProducts
	Window
}

// MaxPool returns the maxima of x (N, H, W, C).
func (g *Graph) MaxPool(x *Node, win Window) *Node { return g.apply1(MaxPoolOp{Window: win}, x) }

func (MaxPoolOp) Name() string              { return "max-pool" }
func (o MaxPoolOp) Infer(in []*Node) []Type { return pooled("max-pool", o.Window, in[0]) }
func (o MaxPoolOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(MaxPoolGradOp{Window: o.Window}, dout[0], c.In[0], c.Out[0])}
}

// MaxPoolGradOp takes dy, x, y. The first of equal maxima gets the gradient.
type MaxPoolGradOp struct {
	backwardOnly
	Window
}

func (MaxPoolGradOp) Name() string            { return "max-pool-grad" }
func (MaxPoolGradOp) Infer(in []*Node) []Type { return sameAs(in[1]) }

// AvgPoolOp is the mean of each window's pixels inside the image; padding does
// not count.
type AvgPoolOp struct {
	noProducts
	Window
}

// AvgPool returns the means of x (N, H, W, C).
func (g *Graph) AvgPool(x *Node, win Window) *Node { return g.apply1(AvgPoolOp{Window: win}, x) }

func (AvgPoolOp) Name() string              { return "avg-pool" }
func (o AvgPoolOp) Infer(in []*Node) []Type { return pooled("avg-pool", o.Window, in[0]) }
func (o AvgPoolOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	x := c.In[0].Shape
	return []*Node{g.apply1(AvgPoolGradOp{Window: o.Window, H: x[1], W: x[2]}, dout[0])}
}

// AvgPoolGradOp returns dx (N, H, W, C) from dy.
type AvgPoolGradOp struct {
	backwardOnly
	Window
	H, W int
}

func (AvgPoolGradOp) Name() string { return "avg-pool-grad" }
func (o AvgPoolGradOp) Infer(in []*Node) []Type {
	dy := in[0].Shape
	return []Type{{Shape{dy[0], o.H, o.W, dy[3]}, in[0].DType}}
}

func pooled(op string, win Window, x *Node) []Type {
	oh, ow := win.infer(op, x)
	// This guarantees that every window has a pixel inside the image.
	if max(win.Top, win.Bottom) >= win.KH || max(win.Left, win.Right) >= win.KW {
		misuse(op, "window %s has padding of its own size", win)
	}
	return []Type{{Shape{x.Shape[0], oh, ow, x.Shape[3]}, x.DType}}
}

// GlobalAvgPoolOp is the mean over all pixels: x (N, H, W, C) becomes (N, C).
type GlobalAvgPoolOp struct{ noProducts }

// GlobalAvgPool returns each image's mean pixel.
func (g *Graph) GlobalAvgPool(x *Node) *Node { return g.apply1(GlobalAvgPoolOp{}, x) }

func (GlobalAvgPoolOp) Name() string { return "global-avg-pool" }
func (GlobalAvgPoolOp) Infer(in []*Node) []Type {
	wantImages("global-avg-pool", in[0])
	x := in[0].Shape
	return []Type{{Shape{x[0], x[3]}, in[0].DType}}
}
func (GlobalAvgPoolOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	x := c.In[0].Shape
	return []*Node{g.apply1(GlobalAvgPoolGradOp{H: x[1], W: x[2]}, dout[0])}
}

// GlobalAvgPoolGradOp returns dx (N, H, W, C) from dy (N, C).
type GlobalAvgPoolGradOp struct {
	backwardOnly
	H, W int
}

func (GlobalAvgPoolGradOp) Name() string { return "global-avg-pool-grad" }
func (o GlobalAvgPoolGradOp) Infer(in []*Node) []Type {
	dy := in[0].Shape
	return []Type{{Shape{dy[0], o.H, o.W, dy[1]}, in[0].DType}}
}
