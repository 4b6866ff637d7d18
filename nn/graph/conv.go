package graph

// Conv2DOp is a two-dimensional convolution (in fact a cross-correlation, as is
// the custom) of channels-last images: x (N, H, W, C) and w (KH, KW, C, O) give
// (N, OH, OW, O).
type Conv2DOp struct{ Window }

// Conv2D convolves x (N, H, W, C) with w (KH, KW, C, O), which sets the
// window's kernel size.
func (g *Graph) Conv2D(x, w *Node, win Window) *Node {
	if len(w.Shape) != 4 {
		misuse("conv2d", "weight %s is not (KH, KW, C, O)", w)
	}
	win.KH, win.KW = w.Shape[0], w.Shape[1]
	return g.apply1(Conv2DOp{win}, x, w)
}

func (Conv2DOp) Name() string { return "conv2d" }
func (o Conv2DOp) Infer(in []*Node) []Type {
	wantFloat("conv2d", in...)
	x, w := in[0], in[1]
	oh, ow := o.infer("conv2d", x)
	if w.Shape[2] != x.Shape[3] {
		misuse("conv2d", "weight %s is not for the channels of %s", w, x)
	}
	return []Type{{Shape{x.Shape[0], oh, ow, w.Shape[3]}, x.DType}}
}
func (o Conv2DOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	x, w, dy := c.In[0], c.In[1], dout[0]
	return []*Node{
		g.apply1(ConvInputGradOp{Window: o.Window, H: x.Shape[1], W: x.Shape[2]}, dy, w),
		g.apply1(ConvWeightGradOp{Window: o.Window}, x, dy),
	}
}
func (Conv2DOp) FLOPs(c *Call) int64 { return convFLOPs(c.Out[0], c.In[1].Shape) }

// ConvInputGradOp returns dx (N, H, W, C) from dy and w.
type ConvInputGradOp struct {
	noGradient
	Window
	H, W int
}

func (ConvInputGradOp) Name() string { return "conv2d-input-grad" }
func (o ConvInputGradOp) Infer(in []*Node) []Type {
	dy, w := in[0], in[1]
	return []Type{{Shape{dy.Shape[0], o.H, o.W, w.Shape[2]}, dy.DType}}
}
func (ConvInputGradOp) FLOPs(c *Call) int64 { return convFLOPs(c.In[0], c.In[1].Shape) }

// ConvWeightGradOp adds to dw (KH, KW, C, O) from x and dy: one chain over
// examples, rows and columns, ascending.
type ConvWeightGradOp struct {
	noGradient
	Window
}

func (ConvWeightGradOp) Name() string { return "conv2d-weight-grad" }
func (o ConvWeightGradOp) Infer(in []*Node) []Type {
	x, dy := in[0], in[1]
	return []Type{{Shape{o.KH, o.KW, x.Shape[3], dy.Shape[3]}, x.DType}}
}
func (ConvWeightGradOp) FLOPs(c *Call) int64 { return convFLOPs(c.In[1], c.Out[0].Shape) }
func (ConvWeightGradOp) Accumulates()        {}

// convFLOPs counts padding like any other pixel.
func convFLOPs(y *Node, w Shape) int64 {
	return 2 * int64(y.Elems()) * int64(w[0]) * int64(w[1]) * int64(w[2])
}
