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
		return poolGradTraits(c, poolOf(o.Window, c.In[1].Shape, c.In[0].Shape), func(before int) any { o.Top = before; return o },
			func(dx []float32, in [][]float32, p kernel.Pool, n0, n1, c0, c1 int) {
				kernel.MaxPoolGrad(dx, in[0], in[1], in[2], p, n0, n1, c0, c1)
			})
	})
	register(func(o op.AvgPoolGrad, c *graph.Call) traits {
		return poolGradTraits(c, poolOf(o.Window, c.Out[0].Shape, c.In[0].Shape), func(before int) any { o.Top = before; return o },
			func(dx []float32, in [][]float32, p kernel.Pool, n0, n1, c0, c1 int) {
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

func poolTraits(c *graph.Call, win op.Window, pool func(y, x []float32, p kernel.Pool, from, to int), moved func(before int) any) traits {
	p := poolOf(win, c.In[0].Shape, c.Out[0].Shape)
	return traits{
		columns: true,
		rule:    windows(c, poolReach(p), moved),
		blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.pool(p, pool) },
		kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(p.N*p.OH, part, parts, 1)
			pool(out[0], in[0], p, from, to)
		}),
	}
}

// poolGradTraits are the traits of a gradient of images, for some of the examples and channels.
func poolGradTraits(c *graph.Call, p kernel.Pool, moved func(before int) any, run func(dx []float32, in [][]float32, p kernel.Pool, n0, n1, c0, c1 int)) traits {
	return traits{
		columns: true,
		rule:    wholeWindows(c, poolReach(p), moved),
		blocks: func(k *conversion, _ bool, _ int) (kernelFunc, int) {
			return k.poolGrad(p, func(dx []float32, in [][]float32, p kernel.Pool) { run(dx, in, p, 0, 1, 0, p.C) })
		},
		kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			n0, n1, c0, c1 := shareImages(p.N, p.C, part, parts)
			run(out[0], in, p, n0, n1, c0, c1)
		}),
	}
}

func poolOf(win op.Window, x, y graph.Shape) kernel.Pool {
	return kernel.Pool{
		N: x[0], H: x[1], W: x[2], C: x[3], KH: win.KH, KW: win.KW,
		StrideH: win.SH, StrideW: win.SW, Top: win.Top, Left: win.Left,
		OH: y[1], OW: y[2],
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

func poolReach(p kernel.Pool) reach { return reach{p.H, p.OH, p.KH, p.StrideH, p.Top} }

// poolBand is p for a band.
func poolBand(p kernel.Pool, b band) kernel.Pool {
	p.N, p.H, p.OH, p.Top = 1, b.image.Len(), b.outputs.Len(), b.top
	return p
}

// pool lowers a pool by bands.
func (k *conversion) pool(v kernel.Pool, run func(y, x []float32, p kernel.Pool, from, to int)) (kernelFunc, int) {
	bands := banded{reach: poolReach(v), examples: v.N, pixels: v.OW, channels: v.C, each: v.C, source: v.W * v.C}
	return k.banded(bands, nil, func(b band, y, x, _, _ []float32) { run(y, x, poolBand(v, b), 0, b.outputs.Len()) })
}

// poolGrad lowers the gradient of a pool's input, from dy and for a maximum x and y, by
// bands of the input's rows. The windows that reach a band are computed whole, since the
// maximum may be outside of it; what they add outside is dropped.
func (k *conversion) poolGrad(v kernel.Pool, run func(dx []float32, in [][]float32, p kernel.Pool)) (kernelFunc, int) {
	reach := poolReach(v)
	rows, count := bands(v.H, max(v.W, v.OW/v.StrideH)*v.C)
	windows := func(r0 int) (r1, p0, p1, e0, e1 int) {
		r1 = min(r0+rows, v.H)
		p0, p1 = reach.outputs(r0, r1)
		e0, e1 = r0, r1
		if p0 < p1 {
			from, to := reach.inputs(p0, p1)
			e0, e1 = min(e0, from), max(e1, to)
		}
		return r1, p0, p1, e0, e1
	}
	var image, output int
	for r := 0; r < v.H; r += rows {
		_, p0, p1, e0, e1 := windows(r)
		image, output = max(image, (e1-e0)*v.W*v.C), max(output, (p1-p0)*v.OW*v.C)
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, image, output, image, output)
		from, to := share(v.N*count, part, parts, 1)
		for i := from; i < to; i++ {
			n, r0 := i/count, i%count*rows
			r1, p0, p1, e0, e1 := windows(r0)
			b := poolBand(v, band{image: Rows{e0, e1}, outputs: Rows{p0, p1}, top: reach.beforeBand(p0, e0)})
			w.in[0] = k.in[0].load(x[1], in[0], (n*v.OH+p0)*v.OW*v.C, b.OH*v.OW*v.C)
			if len(in) > 1 {
				w.in[1] = k.in[1].load(x[2], in[1], (n*v.H+e0)*v.W*v.C, b.H*v.W*v.C)
				w.in[2] = k.in[2].load(x[3], in[2], (n*v.OH+p0)*v.OW*v.C, b.OH*v.OW*v.C)
			}
			run(x[0], w.in[:len(in)], b)
			k.out[0].store(out[0], (n*v.H+r0)*v.W*v.C, x[0][(r0-e0)*v.W*v.C:(r1-e0)*v.W*v.C])
		}
	}, 2*image + 2*output
}
