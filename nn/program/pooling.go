package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Pools over images, whole and by bands of bfloat16.

func init() {
	register(func(o op.MaxPool, c *graph.Call) traits {
		return poolTraits(c, o.Window, kernel.MaxPool, func(before int) any { o.Top = before; return o })
	})
	register(func(o op.AvgPool, c *graph.Call) traits {
		return poolTraits(c, o.Window, kernel.AvgPool, func(before int) any { o.Top = before; return o })
	})
	register(func(o op.MaxPoolGrad, c *graph.Call) traits {
		return poolGradTraits(c, windowOf(o.Window, 1, c.In[1].Shape, c.In[0].Shape), func(before int) any { o.Top = before; return o },
			func(dx []float32, in [][]float32, p kernel.Window, n0, n1, c0, c1 int) {
				kernel.MaxPoolGrad(dx, in[0], in[1], in[2], p, n0, n1, c0, c1)
			})
	})
	register(func(o op.AvgPoolGrad, c *graph.Call) traits {
		return poolGradTraits(c, windowOf(o.Window, 1, c.Out[0].Shape, c.In[0].Shape), func(before int) any { o.Top = before; return o },
			func(dx []float32, in [][]float32, p kernel.Window, n0, n1, c0, c1 int) {
				kernel.AvgPoolGrad(dx, in[0], p, n0, n1, c0, c1)
			})
	})

	register(func(_ op.GlobalAvgPool, c *graph.Call) traits {
		x := c.In[0].Shape
		pixels, ch := x[1]*x[2], x[3]
		return traits{
			columns: true,
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.globalAvgPool(x) },
			rows: &byRow{rows: x[0], in: []int{pixels * ch}, out: []int{ch}, run: func(b stretch) {
				kernel.GlobalAvgPool(b.out[0], b.in[0], b.n, pixels, ch)
			}},
		}
	})
	register(func(_ op.GlobalAvgPoolGrad, c *graph.Call) traits {
		dx := c.Out[0].Shape
		pixels, ch := dx[1]*dx[2], dx[3]
		return traits{
			columns: true,
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.globalAvgPoolGrad(dx) },
			rows: &byRow{rows: dx[0], in: []int{ch}, out: []int{pixels * ch}, run: func(b stretch) {
				kernel.GlobalAvgPoolGrad(b.out[0], b.in[0], b.n, pixels, ch)
			}},
		}
	})
}

func poolTraits(c *graph.Call, win op.Window, pool func(y, x []float32, p kernel.Window, from, to int), moved func(before int) any) traits {
	p := windowOf(win, 1, c.In[0].Shape, c.Out[0].Shape)
	return traits{
		columns: true,
		rule:    windows(c, reachOf(p), moved),
		blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.pool(p, pool) },
		kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(p.N*p.OH, part, parts, 1)
			pool(out[0], in[0], p, from, to)
		}),
	}
}

// poolGradTraits are the traits of a gradient of images, for some of the examples and channels.
func poolGradTraits(c *graph.Call, p kernel.Window, moved func(before int) any, run func(dx []float32, in [][]float32, p kernel.Window, n0, n1, c0, c1 int)) traits {
	return traits{
		columns: true,
		rule:    wholeWindows(c, reachOf(p), moved),
		blocks: func(k *conversion, _ bool, _ int) (kernelFunc, int) {
			return k.poolGrad(p, func(dx []float32, in [][]float32, p kernel.Window) { run(dx, in, p, 0, 1, 0, p.C) })
		},
		kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			n0, n1, c0, c1 := shareImages(p.N, p.C, part, parts)
			run(out[0], in, p, n0, n1, c0, c1)
		}),
	}
}

// shareImages divides images by examples if there are enough, else by channels.
func shareImages(n, c, part, parts int) (n0, n1, c0, c1 int) {
	if n >= parts {
		n0, n1 = share(n, part, parts, 1)
		return n0, n1, 0, c
	}
	c0, c1 = share(c, part, parts, align)
	return 0, n, c0, c1
}

// globalAvgPool is the mean of the pixels of x (n, h, w, c).
func (k *conversion) globalAvgPool(x graph.Shape) (kernelFunc, int) {
	n, pixels, c := x[0], x[1]*x[2], x[3]
	most := min(pixels, max(1, blockFloats/c))
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(n, part, parts, 1)
		sum, block := w.scratch[:c], w.scratch[c:]
		for i := from; i < to; i++ {
			kernel.Zero(sum)
			for p := 0; p < pixels; p += most {
				m := min(most, pixels-p)
				kernel.ColSum(sum, k.in[0].load(block, in[0], (i*pixels+p)*c, m*c), m, c, c)
			}
			kernel.Scale(sum, sum, 1/float32(pixels))
			k.out[0].store(out[0], i*c, sum)
		}
	}, (1 + most) * c
}

// globalAvgPoolGrad sets every pixel of dx (n, h, w, c).
func (k *conversion) globalAvgPoolGrad(dx graph.Shape) (kernelFunc, int) {
	n, pixels, c := dx[0], dx[1]*dx[2], dx[3]
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(n, part, parts, 1)
		pixel := w.scratch[:c]
		for i := from; i < to; i++ {
			kernel.Scale(pixel, k.in[0].load(pixel, in[0], i*c, c), 1/float32(pixels))
			for p := range pixels {
				k.out[0].store(out[0], (i*pixels+p)*c, pixel)
			}
		}
	}, c
}

// pool lowers a pool by bands.
func (k *conversion) pool(v kernel.Window, run func(y, x []float32, p kernel.Window, from, to int)) (kernelFunc, int) {
	return k.banded(bandsOf(v, false, 0, 0), nil, func(v kernel.Window, y, x, _, _ []float32) { run(y, x, v, 0, v.OH) })
}

// poolGrad lowers the gradient of a pool's input, from dy and for a maximum x and y, by
// bands of the input's rows. The windows that reach a band are computed whole, since the
// maximum may be outside of it; what they add outside is dropped.
func (k *conversion) poolGrad(v kernel.Window, run func(dx []float32, in [][]float32, p kernel.Window)) (kernelFunc, int) {
	reach := reachOf(v)
	rows, count := bands(v.H, max(v.W, v.OW/v.StrideH)*v.C)
	windows := func(r0 int) (made, seen, image Rows) {
		made = Rows{r0, min(r0+rows, v.H)}
		return made, reach.outputs(made), reach.whole(made)
	}
	var image, output int
	for r := 0; r < v.H; r += rows {
		_, seen, of := windows(r)
		image, output = max(image, of.Len()*v.W*v.C), max(output, seen.Len()*v.OW*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, image, output, image, output)
		from, to := share(v.N*count, part, parts, 1)
		for i := from; i < to; i++ {
			n := i / count
			made, seen, of := windows(i % count * rows)
			b := bandOf(v, of, seen)
			w.in[0] = k.in[0].load(x[1], in[0], (n*v.OH+seen.From)*v.OW*v.C, b.OH*v.OW*v.C)
			if len(in) > 1 {
				w.in[1] = k.in[1].load(x[2], in[1], (n*v.H+of.From)*v.W*v.C, b.H*v.W*v.C)
				w.in[2] = k.in[2].load(x[3], in[2], (n*v.OH+seen.From)*v.OW*v.C, b.OH*v.OW*v.C)
			}
			run(x[0], w.in[:len(in)], b)
			k.out[0].store(out[0], (n*v.H+made.From)*v.W*v.C, x[0][(made.From-of.From)*v.W*v.C:(made.To-of.From)*v.W*v.C])
		}
	}, 2*image + 2*output
}
