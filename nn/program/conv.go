package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Convolutions, whole and by bands of bfloat16.

func init() {
	register(func(o op.Conv2D, c *graph.Call) traits {
		w, y := c.In[1].Shape, c.Out[0].Shape
		v := windowOf(o.Window, 1, c.In[0].Shape, y)
		return traits{
			product: convProduct(o.Window, "", y, w),
			rule:    windows(c, reachOf(v), func(before int) any { o.Top = before; return o }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.conv(v) },
			kernel: func(_ *step, _ bool, threads int) (kernelFunc, int) {
				return func(w *worker, in, out [][]float32, part, parts int) {
					kernel.ConvForward(v, out[0], in[0], in[1], part, parts, w.scratch)
				}, kernel.ConvForwardScratch(v, threads)
			},
		}
	})
	register(func(o op.ConvInputGrad, c *graph.Call) traits {
		dy, w := c.In[0].Shape, c.In[1].Shape
		v := windowOf(o.Window, 1, c.Out[0].Shape, dy)
		return traits{
			product: convProduct(o.Window, "-input-grad", dy, w),
			rule:    reversed(c, reachOf(v), func(before int) any { o.Top = before; return o }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.convInput(v) },
			kernel: func(_ *step, _ bool, threads int) (kernelFunc, int) {
				return func(w *worker, in, out [][]float32, part, parts int) {
					kernel.ConvGradInput(v, out[0], in[0], in[1], part, parts, w.scratch)
				}, kernel.ConvGradInputScratch(v, threads)
			},
		}
	})
	register(func(o op.ConvWeightGrad, c *graph.Call) traits {
		dy, dw := c.In[1].Shape, c.Out[0].Shape
		v := windowOf(o.Window, 1, c.In[0].Shape, dy)
		return traits{
			product: convProduct(o.Window, "-weight-grad", dy, dw),
			starts:  true,
			rule:    sumOverWindows(c, reachOf(v), func(before int) any { o.Top = before; return o }),
			area: func(n, of int) area {
				i0, i1, j0, j1 := kernel.ConvGradWeightPart(v, n, of)
				return areaOf(i0, i1, j0, j1, v.O)
			},
			blocks: func(k *conversion, adds bool, threads int) (kernelFunc, int) {
				if !adds {
					return nil, 0
				}
				return k.convWeight(v, threads)
			},
			kernel: func(_ *step, accumulates bool, threads int) (kernelFunc, int) {
				return func(w *worker, in, out [][]float32, part, parts int) {
					accumulates := accumulates && !w.env.Fresh
					kernel.ConvGradWeight(v, out[0], in[0], in[1], accumulates, part, parts, w.scratch)
				}, kernel.ConvGradWeightScratch(v, threads)
			},
		}
	})

	register(func(o op.Depthwise, c *graph.Call) traits {
		d := windowOf(o.Window, o.Dilation, c.In[0].Shape, c.Out[0].Shape)
		return traits{
			product: depthwiseProduct("", c.In[1]),
			rule:    windows(c, reachOf(d), func(before int) any { o.Top = before; return o }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.depthwise(d) },
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(d.N*d.OH, part, parts, 1)
				kernel.DepthwiseForward(d, out[0], in[0], in[1], from, to)
			}),
		}
	})
	register(func(o op.DepthwiseInputGrad, c *graph.Call) traits {
		d := windowOf(o.Of.Window, o.Of.Dilation, c.Out[0].Shape, c.In[0].Shape)
		return traits{
			product: depthwiseProduct("-input-grad", c.In[1]),
			rule:    reversed(c, reachOf(d), func(before int) any { o.Of.Top = before; return o }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.depthwiseInput(d) },
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(d.N*d.H, part, parts, 1)
				kernel.DepthwiseGradInput(d, out[0], in[0], in[1], from, to)
			}),
		}
	})
	register(func(o op.DepthwiseWeightGrad, c *graph.Call) traits {
		d := windowOf(o.Of.Window, o.Of.Dilation, c.In[0].Shape, c.In[1].Shape)
		return traits{
			product: depthwiseProduct("-weight-grad", c.Out[0]),
			rule:    sumOverWindows(c, reachOf(d), func(before int) any { o.Of.Top = before; return o }),
			area: func(n, of int) area {
				kh0, kh1, c0, c1 := shareTaps(d, n, of)
				return areaOf(kh0*d.KW, kh1*d.KW, c0, c1, d.C)
			},
			blocks: func(k *conversion, adds bool, _ int) (kernelFunc, int) {
				if !adds {
					return nil, 0
				}
				return k.depthwiseWeight(d)
			},
			kernel: func(_ *step, accumulates bool, _ int) (kernelFunc, int) {
				return func(_ *worker, in, out [][]float32, part, parts int) {
					kh0, kh1, c0, c1 := shareTaps(d, part, parts)
					kernel.DepthwiseGradWeight(d, out[0], in[0], in[1], accumulates, kh0, kh1, c0, c1)
				}, 0
			},
		}
	})
}

// windowOf describes a window between images x and y.
func windowOf(win op.Window, dilation int, x, y graph.Shape) kernel.Window {
	return kernel.Window{
		N: x[0], H: x[1], W: x[2], C: x[3], KH: win.KH, KW: win.KW,
		StrideH: win.SH, StrideW: win.SW, Dilation: dilation, Top: win.Top, Left: win.Left,
		OH: y[1], OW: y[2], O: y[3],
	}
}

// shareTaps divides the weights of a depthwise convolution by channels if there are
// enough, else by the kernel's rows.
func shareTaps(d kernel.Window, part, parts int) (kh0, kh1, c0, c1 int) {
	if d.C >= parts*align {
		c0, c1 = share(d.C, part, parts, align)
		return 0, d.KH, c0, c1
	}
	kh0, kh1 = share(d.KH, part, parts, 1)
	return kh0, kh1, 0, d.C
}

// convProduct is the product of a convolution with the output y and the weight w, or of a
// gradient of these shapes.
func convProduct(win op.Window, gradient string, y, w graph.Shape) product {
	kind := "conv"
	switch {
	case win.KH == 1 && win.KW == 1:
		kind = "conv-1x1"
	case win.KH == 3 && win.KW == 3 && win.SH == 1 && win.SW == 1:
		kind = "conv-3x3"
	}
	return product{kind + gradient, min(y.Rows(), w[3], w[0]*w[1]*w[2]), []int{w[2], w[3]}, Dims{}}
}

// depthwiseProduct is one product of vectors of the channels for each tap.
func depthwiseProduct(gradient string, w *graph.Node) product {
	return product{"depthwise" + gradient, w.Shape.Last(), []int{w.Shape.Last()}, Dims{}}
}

// conv lowers a convolution by channels of its output and by bands.
func (k *conversion) conv(v kernel.Window) (kernelFunc, int) {
	bands := bandsOf(v, false, v.KH*v.KW*v.C, 1)
	bands.cutChannels(bands.taps)
	return k.banded(bands, func(v kernel.Window) int { return kernel.ConvForwardScratch(v, 1) }, func(v kernel.Window, y, x, weights, scratch []float32) {
		kernel.ConvForward(v, y, x, weights, 0, 1, scratch)
	})
}

// convInput lowers the gradient of a convolution's input by channels of the input and by
// bands of its rows.
func (k *conversion) convInput(v kernel.Window) (kernelFunc, int) {
	bands := bandsOf(v, true, v.KH*v.KW, v.O)
	bands.cutChannels(bands.taps * v.O)
	return k.banded(bands, func(v kernel.Window) int { return kernel.ConvGradInputScratch(v, 1) }, func(v kernel.Window, dx, dy, weights, scratch []float32) {
		kernel.ConvGradInput(v, dx, dy, weights, 0, 1, scratch)
	})
}

// convWeight lowers the gradient of a convolution's weight by bands.
func (k *conversion) convWeight(v kernel.Window, threads int) (kernelFunc, int) {
	return k.bandedWeight(v, func(v kernel.Window) int { return kernel.ConvGradWeightScratch(v, threads) },
		func(v kernel.Window, dw, x, dy, scratch []float32, part, parts int) {
			kernel.ConvGradWeight(v, dw, x, dy, true, part, parts, scratch)
		})
}

// depthwise lowers a depthwise convolution by bands.
func (k *conversion) depthwise(v kernel.Window) (kernelFunc, int) {
	return k.banded(bandsOf(v, false, v.KH*v.KW, 1), nil, func(v kernel.Window, y, x, weights, _ []float32) {
		kernel.DepthwiseForward(v, y, x, weights, 0, v.OH)
	})
}

// depthwiseInput lowers the gradient of a depthwise convolution's input by bands of its
// rows.
func (k *conversion) depthwiseInput(v kernel.Window) (kernelFunc, int) {
	return k.banded(bandsOf(v, true, v.KH*v.KW, 1), nil, func(v kernel.Window, dx, dy, weights, _ []float32) {
		kernel.DepthwiseGradInput(v, dx, dy, weights, 0, v.H)
	})
}

// depthwiseWeight lowers the gradient of a depthwise convolution's weight by bands.
func (k *conversion) depthwiseWeight(v kernel.Window) (kernelFunc, int) {
	return k.bandedWeight(v, nil, func(v kernel.Window, dw, x, dy, _ []float32, part, parts int) {
		kh0, kh1, c0, c1 := shareTaps(v, part, parts)
		kernel.DepthwiseGradWeight(v, dw, x, dy, true, kh0, kh1, c0, c1)
	})
}
