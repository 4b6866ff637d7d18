package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
)

// Convolutions, whole and by bands of bfloat16.

func init() {
	register(func(op graph.Conv2DOp, c *graph.Call) traits {
		x, w, y := c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape
		v := convOf(op.Window, x, w, y)
		return traits{
			product: convProduct(op.Window, "", y, w),
			rule:    windows(c, convReach(v), func(before int) graph.Op { op.Top = before; return op }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.conv(v) },
			kernel: func(_ *step, _ bool, threads int) (kernelFunc, int) {
				return func(w *worker, in, out [][]float32, part, parts int) {
					kernel.ConvForward(v, out[0], in[0], in[1], part, parts, w.scratch)
				}, kernel.ConvForwardScratch(v, threads)
			},
		}
	})
	register(func(op graph.ConvInputGradOp, c *graph.Call) traits {
		dy, w, dx := c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape
		v := convOf(op.Window, dx, w, dy)
		return traits{
			product: convProduct(op.Window, "-input-grad", dy, w),
			rule:    reversed(c, convReach(v), func(before int) graph.Op { op.Top = before; return op }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.convInput(v) },
			kernel: func(_ *step, _ bool, threads int) (kernelFunc, int) {
				return func(w *worker, in, out [][]float32, part, parts int) {
					kernel.ConvGradInput(v, out[0], in[0], in[1], part, parts, w.scratch)
				}, kernel.ConvGradInputScratch(v, threads)
			},
		}
	})
	register(func(op graph.ConvWeightGradOp, c *graph.Call) traits {
		x, dy, dw := c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape
		v := convOf(op.Window, x, dw, dy)
		return traits{
			product: convProduct(op.Window, "-weight-grad", dy, dw),
			rule:    sumOverWindows(c, convReach(v), func(before int) graph.Op { op.Top = before; return op }),
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
					kernel.ConvGradWeight(v, out[0], in[0], in[1], accumulates, part, parts, w.scratch)
				}, kernel.ConvGradWeightScratch(v, threads)
			},
		}
	})

	register(func(op graph.DepthwiseOp, c *graph.Call) traits {
		d := depthwiseOf(op, c.In[0].Shape, c.Out[0].Shape)
		return traits{
			product: depthwiseProduct("", c.In[1]),
			rule:    windows(c, depthwiseReach(d), func(before int) graph.Op { op.Top = before; return op }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.depthwise(d) },
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(d.N*d.OH, part, parts, 1)
				kernel.DepthwiseForward(d, out[0], in[0], in[1], from, to)
			}),
		}
	})
	register(func(op graph.DepthwiseInputGradOp, c *graph.Call) traits {
		d := depthwiseOf(op.Of, c.Out[0].Shape, c.In[0].Shape)
		return traits{
			product: depthwiseProduct("-input-grad", c.In[1]),
			rule:    reversed(c, depthwiseReach(d), func(before int) graph.Op { op.Of.Top = before; return op }),
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.depthwiseInput(d) },
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(d.N*d.H, part, parts, 1)
				kernel.DepthwiseGradInput(d, out[0], in[0], in[1], from, to)
			}),
		}
	})
	register(func(op graph.DepthwiseWeightGradOp, c *graph.Call) traits {
		d := depthwiseOf(op.Of, c.In[0].Shape, c.In[1].Shape)
		return traits{
			product: depthwiseProduct("-weight-grad", c.Out[0]),
			rule:    sumOverWindows(c, depthwiseReach(d), func(before int) graph.Op { op.Of.Top = before; return op }),
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
func convOf(win graph.Window, x, w, y graph.Shape) kernel.Conv {
	return kernel.Conv{
		N: x[0], H: x[1], W: x[2], C: x[3], KH: w[0], KW: w[1],
		StrideH: win.SH, StrideW: win.SW, Top: win.Top, Left: win.Left,
		OH: y[1], OW: y[2], O: y[3],
	}
}

// depthwiseOf describes a depthwise convolution between images x and y.
func depthwiseOf(op graph.DepthwiseOp, x, y graph.Shape) kernel.Depthwise {
	return kernel.Depthwise{
		N: x[0], H: x[1], W: x[2], C: x[3], KH: op.KH, KW: op.KW,
		StrideH: op.SH, StrideW: op.SW, Dilation: op.Dilation, Top: op.Top, Left: op.Left,
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
func convProduct(win graph.Window, gradient string, y, w graph.Shape) product {
	kind := "conv"
	switch {
	case win.KH == 1 && win.KW == 1:
		kind = "conv-1x1"
	case win.KH == 3 && win.KW == 3 && win.SH == 1 && win.SW == 1:
		kind = "conv-3x3"
	}
	return product{kind + gradient, min(y.Rows(), w[3], w[0]*w[1]*w[2]), []int{w[2], w[3]}}
}

// depthwiseProduct is one product of vectors of the channels for each tap.
func depthwiseProduct(gradient string, w *graph.Node) product {
	return product{"depthwise" + gradient, w.Shape.Last(), []int{w.Shape.Last()}}
}

func convReach(v kernel.Conv) reach { return reach{v.H, v.OH, v.KH, v.StrideH, v.Top} }

// convBand is v for the output rows [p0, p1) and the image's rows [r0, r1) of one
// example.
func convBand(v kernel.Conv, p0, p1, r0, r1 int) kernel.Conv {
	v.Top = convReach(v).beforeBand(p0, r0)
	v.N, v.H, v.OH = 1, r1-r0, p1-p0
	return v
}

// conv lowers a convolution by channels of its output, whose weights are rounded once,
// and by bands.
func (k *conversion) conv(v kernel.Conv) (kernelFunc, int) {
	taps, reach := v.KH*v.KW*v.C, convReach(v)
	each, blocks := channels(v.O, taps)
	rows, count := bands(v.OH, max(v.OW*each, v.StrideH*v.W*v.C))
	var own, image int
	for p := 0; p < v.OH; p += rows {
		r0, r1 := reach.inputs(p, min(p+rows, v.OH))
		b := convBand(v, p, min(p+rows, v.OH), r0, r1)
		image = max(image, b.H*b.W*b.C)
		b.O = each
		own = max(own, kernel.ConvForwardScratch(b, 1))
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, taps*each, image, rows*v.OW*each)
		from, to := share(blocks*v.N*count, part, parts, 1)
		weights := -1 // the channels that are loaded
		for i := from; i < to; i++ {
			n, p0 := i/count%v.N, i%count*rows
			p1 := min(p0+rows, v.OH)
			o := i / count / v.N * each
			r0, r1 := reach.inputs(p0, p1)
			b := convBand(v, p0, p1, r0, r1)
			b.O = min(each, v.O-o)
			if o != weights {
				k.in[1].loadRows(x[0], in[1], o, taps, b.O, v.O)
				weights = o
			}
			source := k.in[0].load(x[1], in[0], (n*v.H+r0)*v.W*v.C, b.H*v.W*v.C)
			kernel.ConvForward(b, x[2], source, x[0], 0, 1, w.scratch[taps*each+image+rows*v.OW*each:])
			k.out[0].storeRows(out[0], (n*v.OH+p0)*v.OW*v.O+o, x[2], b.OH*v.OW, b.O, v.O)
		}
	}, taps*each + image + rows*v.OW*each + own
}

// convInput lowers the gradient of a convolution's input by channels of the input and by
// bands of its rows.
func (k *conversion) convInput(v kernel.Conv) (kernelFunc, int) {
	taps, reach := v.KH*v.KW, convReach(v)
	each, blocks := channels(v.C, taps*v.O)
	rows, count := bands(v.H, max(v.W*each, v.OW*v.O/v.StrideH))
	var own, image int
	for r := 0; r < v.H; r += rows {
		p0, p1 := reach.outputs(r, min(r+rows, v.H))
		b := convBand(v, p0, p1, r, min(r+rows, v.H))
		image = max(image, b.OH*b.OW*b.O)
		b.C = each
		own = max(own, kernel.ConvGradInputScratch(b, 1))
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, taps*each*v.O, image, rows*v.W*each)
		from, to := share(blocks*v.N*count, part, parts, 1)
		weights := -1
		for i := from; i < to; i++ {
			n, r0 := i/count%v.N, i%count*rows
			r1 := min(r0+rows, v.H)
			c := i / count / v.N * each
			p0, p1 := reach.outputs(r0, r1)
			b := convBand(v, p0, p1, r0, r1)
			b.C = min(each, v.C-c)
			if c != weights {
				k.in[1].loadRows(x[0], in[1], c*v.O, taps, b.C*v.O, v.C*v.O)
				weights = c
			}
			dy := k.in[0].load(x[1], in[0], (n*v.OH+p0)*v.OW*v.O, b.OH*v.OW*v.O)
			kernel.ConvGradInput(b, x[2], dy, x[0], 0, 1, w.scratch[taps*each*v.O+image+rows*v.W*each:])
			k.out[0].storeRows(out[0], (n*v.H+r0)*v.W*v.C+c, x[2], b.H*v.W, b.C, v.C)
		}
	}, taps*each*v.O + image + rows*v.W*each + own
}

// convWeight lowers the gradient of a convolution's weight, to which the bands add in
// the order of their rows.
func (k *conversion) convWeight(v kernel.Conv, threads int) (kernelFunc, int) {
	reach := convReach(v)
	rows, _ := bands(v.OH, max(v.OW*v.O, v.StrideH*v.W*v.C))
	var own, image int
	for p := 0; p < v.OH; p += rows {
		r0, r1 := reach.inputs(p, min(p+rows, v.OH))
		b := convBand(v, p, min(p+rows, v.OH), r0, r1)
		image = max(image, b.H*b.W*b.C)
		own = max(own, kernel.ConvGradWeightScratch(b, threads))
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, image, rows*v.OW*v.O)
		for n := range v.N {
			for p0 := 0; p0 < v.OH; p0 += rows {
				p1 := min(p0+rows, v.OH)
				r0, r1 := reach.inputs(p0, p1)
				b := convBand(v, p0, p1, r0, r1)
				source := k.in[0].load(x[0], in[0], (n*v.H+r0)*v.W*v.C, b.H*v.W*v.C)
				dy := k.in[1].load(x[1], in[1], (n*v.OH+p0)*v.OW*v.O, b.OH*v.OW*v.O)
				kernel.ConvGradWeight(b, out[0], source, dy, true, part, parts, w.scratch[image+rows*v.OW*v.O:])
			}
		}
	}, image + rows*v.OW*v.O + own
}

func depthwiseReach(v kernel.Depthwise) reach {
	return reach{v.H, v.OH, (v.KH-1)*v.Dilation + 1, v.StrideH, v.Top}
}

// depthwiseBand is convBand for a depthwise convolution.
func depthwiseBand(v kernel.Depthwise, p0, p1, r0, r1 int) kernel.Depthwise {
	v.Top = depthwiseReach(v).beforeBand(p0, r0)
	v.N, v.H, v.OH = 1, r1-r0, p1-p0
	return v
}

// depthwise lowers a depthwise convolution by bands.
func (k *conversion) depthwise(v kernel.Depthwise) (kernelFunc, int) {
	weights := v.KH * v.KW * v.C
	reach := depthwiseReach(v)
	rows, count := bands(v.OH, max(v.OW, v.StrideH*v.W)*v.C)
	image := 0
	for p := 0; p < v.OH; p += rows {
		r0, r1 := reach.inputs(p, min(p+rows, v.OH))
		image = max(image, (r1-r0)*v.W*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, weights, image, rows*v.OW*v.C)
		wts := k.in[1].load(x[0], in[1], 0, weights)
		from, to := share(v.N*count, part, parts, 1)
		for i := from; i < to; i++ {
			n, p0 := i/count, i%count*rows
			p1 := min(p0+rows, v.OH)
			r0, r1 := reach.inputs(p0, p1)
			b := depthwiseBand(v, p0, p1, r0, r1)
			source := k.in[0].load(x[1], in[0], (n*v.H+r0)*v.W*v.C, b.H*v.W*v.C)
			kernel.DepthwiseForward(b, x[2], source, wts, 0, b.OH)
			k.out[0].store(out[0], (n*v.OH+p0)*v.OW*v.C, x[2][:b.OH*v.OW*v.C])
		}
	}, weights + image + rows*v.OW*v.C
}

// depthwiseInput lowers the gradient of a depthwise convolution's input by bands of its
// rows.
func (k *conversion) depthwiseInput(v kernel.Depthwise) (kernelFunc, int) {
	weights := v.KH * v.KW * v.C
	reach := depthwiseReach(v)
	rows, count := bands(v.H, max(v.W, v.OW/v.StrideH)*v.C)
	image := 0
	for r := 0; r < v.H; r += rows {
		p0, p1 := reach.outputs(r, min(r+rows, v.H))
		image = max(image, (p1-p0)*v.OW*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, weights, image, rows*v.W*v.C)
		wts := k.in[1].load(x[0], in[1], 0, weights)
		from, to := share(v.N*count, part, parts, 1)
		for i := from; i < to; i++ {
			n, r0 := i/count, i%count*rows
			r1 := min(r0+rows, v.H)
			p0, p1 := reach.outputs(r0, r1)
			b := depthwiseBand(v, p0, p1, r0, r1)
			dy := k.in[0].load(x[1], in[0], (n*v.OH+p0)*v.OW*v.C, b.OH*v.OW*v.C)
			kernel.DepthwiseGradInput(b, x[2], dy, wts, 0, b.H)
			k.out[0].store(out[0], (n*v.H+r0)*v.W*v.C, x[2][:b.H*v.W*v.C])
		}
	}, weights + image + rows*v.W*v.C
}

// depthwiseWeight lowers the gradient of a depthwise convolution's weight, to which the
// bands add in the order of their rows.
func (k *conversion) depthwiseWeight(v kernel.Depthwise) (kernelFunc, int) {
	reach := depthwiseReach(v)
	rows, _ := bands(v.OH, max(v.OW, v.StrideH*v.W)*v.C)
	image := 0
	for p := 0; p < v.OH; p += rows {
		r0, r1 := reach.inputs(p, min(p+rows, v.OH))
		image = max(image, (r1-r0)*v.W*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, image, rows*v.OW*v.C)
		kh0, kh1, c0, c1 := shareTaps(v, part, parts)
		for n := range v.N {
			for p0 := 0; p0 < v.OH; p0 += rows {
				p1 := min(p0+rows, v.OH)
				r0, r1 := reach.inputs(p0, p1)
				b := depthwiseBand(v, p0, p1, r0, r1)
				source := k.in[0].load(x[0], in[0], (n*v.H+r0)*v.W*v.C, b.H*v.W*v.C)
				dy := k.in[1].load(x[1], in[1], (n*v.OH+p0)*v.OW*v.C, b.OH*v.OW*v.C)
				kernel.DepthwiseGradWeight(b, out[0], source, dy, true, kh0, kh1, c0, c1)
			}
		}
	}, image + rows*v.OW*v.C
}
