package graph

import "fmt"

// DepthwiseOp is a depthwise convolution of channels-last images: each channel
// of x (N, H, W, C) with its own kernel of w (KH, KW, C) gives (N, OH, OW, C).
// A separable convolution is one of these and a 1x1 convolution after it.
type DepthwiseOp struct {
	Window
	Dilation int // pixels from one tap of the kernel to the next, at least 1
}

// Depthwise convolves x (N, H, W, C) with w (KH, KW, C), which sets the
// window's kernel size: the number of taps, whatever the dilation.
func (g *Graph) Depthwise(x, w *Node, win Window, dilation int) *Node {
	if len(w.Shape) != 3 {
		misuse("depthwise", "weight %s is not (KH, KW, C)", w)
	}
	win.KH, win.KW = w.Shape[0], w.Shape[1]
	return g.apply1(DepthwiseOp{win, dilation}, x, w)
}

// Dilated returns the window that the taps of w's kernel span if they are so
// many pixels apart.
func (w Window) Dilated(pixels int) Window {
	w.KH, w.KW = (w.KH-1)*pixels+1, (w.KW-1)*pixels+1
	return w
}

func (DepthwiseOp) Name() string { return "depthwise" }
func (o DepthwiseOp) String() string {
	if o.Dilation == 1 {
		return o.Window.String()
	}
	return fmt.Sprintf("%v dilation %d", o.Window, o.Dilation)
}
func (o DepthwiseOp) Infer(in []*Node) []Type {
	wantFloat("depthwise", in...)
	x, w := in[0], in[1]
	wantImages("depthwise", x)
	if o.Dilation < 1 || o.KH < 1 || o.KW < 1 {
		misuse("depthwise", "window %v with taps %d pixels apart, want at least 1", o.Window, o.Dilation)
	}
	oh, ow := o.Dilated(o.Dilation).infer("depthwise", x)
	if w.Shape[2] != x.Shape[3] {
		misuse("depthwise", "weight %s is not for the channels of %s", w, x)
	}
	return []Type{{Shape{x.Shape[0], oh, ow, x.Shape[3]}, x.DType}}
}
func (o DepthwiseOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	x, w, dy := c.In[0], c.In[1], dout[0]
	return []*Node{
		g.apply1(DepthwiseInputGradOp{Of: o, H: x.Shape[1], W: x.Shape[2]}, dy, w),
		g.apply1(DepthwiseWeightGradOp{Of: o}, x, dy),
	}
}
func (DepthwiseOp) FLOPs(c *Call) int64 { return depthwiseFLOPs(c.Out[0], c.In[1].Shape) }

// DepthwiseInputGradOp returns dx (N, H, W, C) from dy and w.
type DepthwiseInputGradOp struct {
	noGradient
	Of   DepthwiseOp
	H, W int
}

func (DepthwiseInputGradOp) Name() string     { return "depthwise-input-grad" }
func (o DepthwiseInputGradOp) String() string { return o.Of.String() }
func (o DepthwiseInputGradOp) Infer(in []*Node) []Type {
	dy := in[0]
	return []Type{{Shape{dy.Shape[0], o.H, o.W, dy.Shape[3]}, dy.DType}}
}
func (DepthwiseInputGradOp) FLOPs(c *Call) int64 { return depthwiseFLOPs(c.In[0], c.In[1].Shape) }

// DepthwiseWeightGradOp adds to dw (KH, KW, C) from x and dy: one chain over
// examples, rows and columns, ascending.
type DepthwiseWeightGradOp struct {
	noGradient
	Of DepthwiseOp
}

func (DepthwiseWeightGradOp) Name() string     { return "depthwise-weight-grad" }
func (o DepthwiseWeightGradOp) String() string { return o.Of.String() }
func (o DepthwiseWeightGradOp) Infer(in []*Node) []Type {
	x := in[0]
	return []Type{{Shape{o.Of.KH, o.Of.KW, x.Shape[3]}, x.DType}}
}
func (DepthwiseWeightGradOp) FLOPs(c *Call) int64 { return depthwiseFLOPs(c.In[1], c.Out[0].Shape) }
func (DepthwiseWeightGradOp) Accumulates()        {}

// depthwiseFLOPs counts padding like any other pixel.
func depthwiseFLOPs(y *Node, w Shape) int64 {
	return 2 * int64(y.Elems()) * int64(w[0]) * int64(w[1])
}
