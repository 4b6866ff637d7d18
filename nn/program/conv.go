package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Convolutions, whole and by bands of bfloat16.

func init() {
	register(func(o op.Conv2D, c *graph.Call) traits {
		x, w, y := c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape
		v := convOf(o.Window, x, w, y)
		return traits{
			product: convProduct(o.Window, "", y, w),
			rule:    windows(c, convReach(v), func(before int) any { o.Top = before; return o }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.conv(v) },
			kernel: func(_ *step, _ bool, threads int) (kernelFunc, int) {
				return func(w *worker, in, out [][]float32, part, parts int) {
					kernel.ConvForward(v, out[0], in[0], in[1], part, parts, w.scratch)
				}, kernel.ConvForwardScratch(v, threads)
			},
		}
	})
	register(func(o op.ConvInputGrad, c *graph.Call) traits {
		dy, w, dx := c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape
		v := convOf(o.Window, dx, w, dy)
		return traits{
			product: convProduct(o.Window, "-input-grad", dy, w),
			rule:    reversed(c, convReach(v), func(before int) any { o.Top = before; return o }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.convInput(v) },
			kernel: func(_ *step, _ bool, threads int) (kernelFunc, int) {
				return func(w *worker, in, out [][]float32, part, parts int) {
					kernel.ConvGradInput(v, out[0], in[0], in[1], part, parts, w.scratch)
				}, kernel.ConvGradInputScratch(v, threads)
			},
		}
	})
	register(func(o op.ConvWeightGrad, c *graph.Call) traits {
		x, dy, dw := c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape
		v := convOf(o.Window, x, dw, dy)
		return traits{
			product: convProduct(o.Window, "-weight-grad", dy, dw),
			starts:  true,
			rule:    sumOverWindows(c, convReach(v), func(before int) any { o.Top = before; return o }),
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
		d := depthwiseOf(o, c.In[0].Shape, c.Out[0].Shape)
		return traits{
			product: depthwiseProduct("", c.In[1]),
			rule:    windows(c, depthwiseReach(d), func(before int) any { o.Top = before; return o }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.depthwise(d) },
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(d.N*d.OH, part, parts, 1)
				kernel.DepthwiseForward(d, out[0], in[0], in[1], from, to)
			}),
		}
	})
	register(func(o op.DepthwiseInputGrad, c *graph.Call) traits {
		d := depthwiseOf(o.Of, c.Out[0].Shape, c.In[0].Shape)
		return traits{
			product: depthwiseProduct("-input-grad", c.In[1]),
			rule:    reversed(c, depthwiseReach(d), func(before int) any { o.Of.Top = before; return o }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.depthwiseInput(d) },
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(d.N*d.H, part, parts, 1)
				kernel.DepthwiseGradInput(d, out[0], in[0], in[1], from, to)
			}),
		}
	})
	register(func(o op.DepthwiseWeightGrad, c *graph.Call) traits {
		d := depthwiseOf(o.Of, c.In[0].Shape, c.In[1].Shape)
		return traits{
			product: depthwiseProduct("-weight-grad", c.Out[0]),
			rule:    sumOverWindows(c, depthwiseReach(d), func(before int) any { o.Of.Top = before; return o }),
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

// convOf describes a convolution between images x and y with weight w.
func convOf(win op.Window, x, w, y graph.Shape) kernel.Conv {
	return kernel.Conv{
		N: x[0], H: x[1], W: x[2], C: x[3], KH: w[0], KW: w[1],
		StrideH: win.SH, StrideW: win.SW, Top: win.Top, Left: win.Left,
		OH: y[1], OW: y[2], O: y[3],
	}
}

// depthwiseOf describes a depthwise convolution between images x and y.
func depthwiseOf(o op.Depthwise, x, y graph.Shape) kernel.Depthwise {
	return kernel.Depthwise{
		N: x[0], H: x[1], W: x[2], C: x[3], KH: o.KH, KW: o.KW,
		StrideH: o.SH, StrideW: o.SW, Dilation: o.Dilation, Top: o.Top, Left: o.Left,
		OH: y[1], OW: y[2],
	}
}

// shareTaps divides the weights of a depthwise convolution by channels if there are
// enough, else by the kernel's rows.
func shareTaps(d kernel.Depthwise, part, parts int) (kh0, kh1, c0, c1 int) {
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

func convReach(v kernel.Conv) reach { return reach{v.H, v.OH, v.KH, v.StrideH, v.Top} }

// convBand is v for a band.
func convBand(v kernel.Conv, b band) kernel.Conv {
	v.N, v.H, v.OH, v.Top = 1, b.image.Len(), b.outputs.Len(), b.top
	return v
}

// conv lowers a convolution by channels of its output and by bands.
func (k *conversion) conv(v kernel.Conv) (kernelFunc, int) {
	taps := v.KH * v.KW * v.C
	bands := banded{reach: convReach(v), examples: v.N, pixels: v.OW, channels: v.O, source: v.W * v.C, taps: taps, weights: 1}
	bands.each, _ = channels(v.O, taps)
	of := func(b band) kernel.Conv {
		c := convBand(v, b)
		c.O = b.channels
		return c
	}
	return k.banded(bands, func(b band) int { return kernel.ConvForwardScratch(of(b), 1) }, func(b band, y, x, weights, scratch []float32) {
		kernel.ConvForward(of(b), y, x, weights, 0, 1, scratch)
	})
}

// convInput lowers the gradient of a convolution's input by channels of the input and by
// bands of its rows.
func (k *conversion) convInput(v kernel.Conv) (kernelFunc, int) {
	taps := v.KH * v.KW
	bands := banded{reach: convReach(v), backward: true, examples: v.N, pixels: v.W, channels: v.C, source: v.OW * v.O, taps: taps, weights: v.O}
	bands.each, _ = channels(v.C, taps*v.O)
	of := func(b band) kernel.Conv {
		c := convBand(v, b)
		c.C = b.channels
		return c
	}
	return k.banded(bands, func(b band) int { return kernel.ConvGradInputScratch(of(b), 1) }, func(b band, dx, dy, weights, scratch []float32) {
		kernel.ConvGradInput(of(b), dx, dy, weights, 0, 1, scratch)
	})
}

// convWeight lowers the gradient of a convolution's weight by bands.
func (k *conversion) convWeight(v kernel.Conv, threads int) (kernelFunc, int) {
	bands := banded{reach: convReach(v), examples: v.N, pixels: v.OW, channels: v.O, each: v.O, source: v.W * v.C}
	return k.bandedWeight(bands, func(b band) int { return kernel.ConvGradWeightScratch(convBand(v, b), threads) },
		func(b band, dw, x, dy, scratch []float32, part, parts int) {
			kernel.ConvGradWeight(convBand(v, b), dw, x, dy, true, part, parts, scratch)
		})
}

func depthwiseReach(v kernel.Depthwise) reach {
	return reach{v.H, v.OH, (v.KH-1)*v.Dilation + 1, v.StrideH, v.Top}
}

// depthwiseBand is v for a band.
func depthwiseBand(v kernel.Depthwise, b band) kernel.Depthwise {
	v.N, v.H, v.OH, v.Top = 1, b.image.Len(), b.outputs.Len(), b.top
	return v
}

// depthwise lowers a depthwise convolution by bands.
func (k *conversion) depthwise(v kernel.Depthwise) (kernelFunc, int) {
	bands := banded{reach: depthwiseReach(v), examples: v.N, pixels: v.OW, channels: v.C, each: v.C, source: v.W * v.C, taps: v.KH * v.KW, weights: 1}
	return k.banded(bands, nil, func(b band, y, x, weights, _ []float32) {
		kernel.DepthwiseForward(depthwiseBand(v, b), y, x, weights, 0, b.outputs.Len())
	})
}

// depthwiseInput lowers the gradient of a depthwise convolution's input by bands of its
// rows.
func (k *conversion) depthwiseInput(v kernel.Depthwise) (kernelFunc, int) {
	bands := banded{reach: depthwiseReach(v), backward: true, examples: v.N, pixels: v.W, channels: v.C, each: v.C, source: v.OW * v.C, taps: v.KH * v.KW, weights: 1}
	return k.banded(bands, nil, func(b band, dx, dy, weights, _ []float32) {
		kernel.DepthwiseGradInput(depthwiseBand(v, b), dx, dy, weights, 0, b.image.Len())
	})
}

// depthwiseWeight lowers the gradient of a depthwise convolution's weight by bands.
func (k *conversion) depthwiseWeight(v kernel.Depthwise) (kernelFunc, int) {
	bands := banded{reach: depthwiseReach(v), examples: v.N, pixels: v.OW, channels: v.C, each: v.C, source: v.W * v.C}
	return k.bandedWeight(bands, nil, func(b band, dw, x, dy, _ []float32, part, parts int) {
		kh0, kh1, c0, c1 := shareTaps(v, part, parts)
		kernel.DepthwiseGradWeight(depthwiseBand(v, b), dw, x, dy, true, kh0, kh1, c0, c1)
	})
}
