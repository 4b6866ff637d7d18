package graph

import "gpipebench/nn/graph/op"

// Conv2D convolves x (N, H, W, C) with w (KH, KW, C, O), which sets the
// window's kernel size: (N, OH, OW, O).
func (g *Graph) Conv2D(x, w *Node, win op.Window) *Node {
	if len(w.Shape) != 4 {
		misuse("conv2d", "weight %s is not (KH, KW, C, O)", w)
	}
	win.KH, win.KW = w.Shape[0], w.Shape[1]
	return g.apply1(op.Conv2D{Window: win}, x, w)
}

// Depthwise convolves each channel of x (N, H, W, C) with its own kernel of w (KH, KW, C), which
// sets the window's kernel size: the number of taps, whatever the dilation. It returns (N, OH, OW, C).
func (g *Graph) Depthwise(x, w *Node, win op.Window, dilation int) *Node {
	if len(w.Shape) != 3 {
		misuse("depthwise", "weight %s is not (KH, KW, C)", w)
	}
	win.KH, win.KW = w.Shape[0], w.Shape[1]
	return g.apply1(op.Depthwise{Window: win, Dilation: dilation}, x, w)
}

// MaxPool returns the maxima of the windows of x (N, H, W, C).
func (g *Graph) MaxPool(x *Node, win op.Window) *Node { return g.apply1(op.MaxPool{Window: win}, x) }

// AvgPool returns the means of the windows of x (N, H, W, C).
func (g *Graph) AvgPool(x *Node, win op.Window) *Node { return g.apply1(op.AvgPool{Window: win}, x) }

// GlobalAvgPool returns each image's mean pixel: x (N, H, W, C) becomes (N, C).
func (g *Graph) GlobalAvgPool(x *Node) *Node { return g.apply1(op.GlobalAvgPool{}, x) }

func init() {
	define(func(o op.Conv2D) rules {
		return rules{
			name: "conv2d",
			infer: func(in []*Node) []Type {
				wantFloat("conv2d", in...)
				x, w := in[0], in[1]
				oh, ow := outputs("conv2d", o.Window, x)
				if w.Shape[2] != x.Shape[3] {
					misuse("conv2d", "weight %s is not for the channels of %s", w, x)
				}
				return []Type{{Shape{x.Shape[0], oh, ow, w.Shape[3]}, x.DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				x, w, dy := c.In[0], c.In[1], dout[0]
				return []*Node{
					g.apply1(op.ConvInputGrad{Window: o.Window, H: x.Shape[1], W: x.Shape[2]}, dy, w),
					g.apply1(op.ConvWeightGrad(o), x, dy),
				}
			},
			flops: func(c *Call) int64 { return convFLOPs(c.Out[0], c.In[1]) },
		}
	})
	define(func(o op.ConvInputGrad) rules {
		return rules{
			name:  "conv2d-input-grad",
			infer: func(in []*Node) []Type { return images(in[0], o.H, o.W, in[1].Shape[2]) },
			flops: func(c *Call) int64 { return convFLOPs(c.In[0], c.In[1]) },
		}
	})
	define(func(o op.ConvWeightGrad) rules {
		return rules{
			name: "conv2d-weight-grad",
			infer: func(in []*Node) []Type {
				x, dy := in[0], in[1]
				return []Type{{Shape{o.KH, o.KW, x.Shape[3], dy.Shape[3]}, x.DType}}
			},
			flops:       func(c *Call) int64 { return convFLOPs(c.In[1], c.Out[0]) },
			accumulates: true,
		}
	})

	define(func(o op.Depthwise) rules {
		return rules{
			name: "depthwise",
			infer: func(in []*Node) []Type {
				wantFloat("depthwise", in...)
				x, w := in[0], in[1]
				wantImages("depthwise", x)
				if o.Dilation < 1 || o.KH < 1 || o.KW < 1 {
					misuse("depthwise", "window %v with taps %d pixels apart, want at least 1", o.Window, o.Dilation)
				}
				oh, ow := outputs("depthwise", o.Dilated(o.Dilation), x)
				if w.Shape[2] != x.Shape[3] {
					misuse("depthwise", "weight %s is not for the channels of %s", w, x)
				}
				return images(x, oh, ow, x.Shape[3])
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				x, w, dy := c.In[0], c.In[1], dout[0]
				return []*Node{
					g.apply1(op.DepthwiseInputGrad{Of: o, H: x.Shape[1], W: x.Shape[2]}, dy, w),
					g.apply1(op.DepthwiseWeightGrad{Of: o}, x, dy),
				}
			},
			flops: func(c *Call) int64 { return depthwiseFLOPs(c.Out[0], c.In[1]) },
		}
	})
	define(func(o op.DepthwiseInputGrad) rules {
		return rules{
			name:  "depthwise-input-grad",
			infer: func(in []*Node) []Type { return images(in[0], o.H, o.W, in[0].Shape[3]) },
			flops: func(c *Call) int64 { return depthwiseFLOPs(c.In[0], c.In[1]) },
		}
	})
	define(func(o op.DepthwiseWeightGrad) rules {
		return rules{
			name: "depthwise-weight-grad",
			infer: func(in []*Node) []Type {
				return []Type{{Shape{o.Of.KH, o.Of.KW, in[0].Shape[3]}, in[0].DType}}
			},
			flops:       func(c *Call) int64 { return depthwiseFLOPs(c.In[1], c.Out[0]) },
			accumulates: true,
		}
	})

	define(func(o op.MaxPool) rules {
		return rules{
			name:  "max-pool",
			infer: func(in []*Node) []Type { return pooled("max-pool", o.Window, in[0]) },
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				return []*Node{g.apply1(op.MaxPoolGrad(o), dout[0], c.In[0], c.Out[0])}
			},
		}
	})
	define(func(op.MaxPoolGrad) rules {
		return rules{name: "max-pool-grad", infer: func(in []*Node) []Type { return sameAs(in[1]) }}
	})
	define(func(o op.AvgPool) rules {
		return rules{
			name:  "avg-pool",
			infer: func(in []*Node) []Type { return pooled("avg-pool", o.Window, in[0]) },
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				x := c.In[0].Shape
				return []*Node{g.apply1(op.AvgPoolGrad{Window: o.Window, H: x[1], W: x[2]}, dout[0])}
			},
		}
	})
	define(func(o op.AvgPoolGrad) rules {
		return rules{
			name:  "avg-pool-grad",
			infer: func(in []*Node) []Type { return images(in[0], o.H, o.W, in[0].Shape[3]) },
		}
	})
	define(func(op.GlobalAvgPool) rules {
		return rules{
			name: "global-avg-pool",
			infer: func(in []*Node) []Type {
				wantImages("global-avg-pool", in[0])
				x := in[0].Shape
				return []Type{{Shape{x[0], x[3]}, in[0].DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				x := c.In[0].Shape
				return []*Node{g.apply1(op.GlobalAvgPoolGrad{H: x[1], W: x[2]}, dout[0])}
			},
		}
	})
	define(func(o op.GlobalAvgPoolGrad) rules {
		return rules{
			name:  "global-avg-pool-grad",
			infer: func(in []*Node) []Type { return images(in[0], o.H, o.W, in[0].Shape[1]) },
		}
	})
}

// images is the type of as many images as x has, of another size.
func images(x *Node, height, width, channels int) []Type {
	return []Type{{Shape{x.Shape[0], height, width, channels}, x.DType}}
}

// convFLOPs counts padding like any other pixel; y is the output, and w the weight (KH, KW, C, O).
func convFLOPs(y, w *Node) int64 {
	return 2 * int64(y.Elems()) * int64(w.Shape[0]) * int64(w.Shape[1]) * int64(w.Shape[2])
}

// depthwiseFLOPs counts padding like any other pixel; w is (KH, KW, C).
func depthwiseFLOPs(y, w *Node) int64 {
	return 2 * int64(y.Elems()) * int64(w.Shape[0]) * int64(w.Shape[1])
}

func pooled(name string, win op.Window, x *Node) []Type {
	oh, ow := outputs(name, win, x)
	// This guarantees that every window has a pixel inside the image.
	if max(win.Top, win.Bottom) >= win.KH || max(win.Left, win.Right) >= win.KW {
		misuse(name, "window %s has padding of its own size", win)
	}
	return images(x, oh, ow, x.Shape[3])
}

// outputs returns the output size of a window over x, after checking both.
func outputs(name string, win op.Window, x *Node) (oh, ow int) {
	wantImages(name, x)
	if win.KH < 1 || win.KW < 1 || win.SH < 1 || win.SW < 1 {
		misuse(name, "window %s, want sizes and strides of at least 1", win)
	}
	oh, ow = win.Out(x.Shape[1], x.Shape[2])
	if oh < 1 || ow < 1 {
		misuse(name, "images %s are smaller than the window %s", x, win)
	}
	return oh, ow
}

func wantImages(name string, x *Node) {
	wantFloat(name, x)
	if len(x.Shape) != 4 {
		misuse(name, "input %s is not (N, H, W, C)", x)
	}
}
