package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
)

// Pools over images; bf16image.go has their kernels by bands.

func init() {
	register(func(op graph.MaxPoolOp, c *graph.Call) traits {
		return poolTraits(c, op.Window, kernel.MaxPool, func(before int) graph.Op { op.Top = before; return op })
	})
	register(func(op graph.AvgPoolOp, c *graph.Call) traits {
		return poolTraits(c, op.Window, kernel.AvgPool, func(before int) graph.Op { op.Top = before; return op })
	})
	register(func(op graph.MaxPoolGradOp, c *graph.Call) traits {
		return poolGradTraits(c, poolOf(op.Window, c.In[1].Shape, c.In[0].Shape), func(before int) graph.Op { op.Top = before; return op },
			func(dx []float32, in [][]float32, p kernel.Pool, n0, n1, c0, c1 int) {
				kernel.MaxPoolGrad(dx, in[0], in[1], in[2], p, n0, n1, c0, c1)
			})
	})
	register(func(op graph.AvgPoolGradOp, c *graph.Call) traits {
		return poolGradTraits(c, poolOf(op.Window, c.Out[0].Shape, c.In[0].Shape), func(before int) graph.Op { op.Top = before; return op },
			func(dx []float32, in [][]float32, p kernel.Pool, n0, n1, c0, c1 int) {
				kernel.AvgPoolGrad(dx, in[0], p, n0, n1, c0, c1)
			})
	})

	register(func(_ graph.GlobalAvgPoolOp, c *graph.Call) traits {
		x := c.In[0].Shape
		return traits{
			blocks: func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.globalAvgPool(x) },
			rows: func(*step) byRow {
				pixels, ch := x[1]*x[2], x[3]
				return byRow{rows: x[0], in: []int{pixels * ch}, out: []int{ch}, run: func(b stretch) {
					kernel.GlobalAvgPool(b.out[0], b.in[0], b.n, pixels, ch)
				}}
			},
		}
	})
	register(func(_ graph.GlobalAvgPoolGradOp, c *graph.Call) traits {
		dx := c.Out[0].Shape
		return traits{
			blocks: func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.globalAvgPoolGrad(dx) },
			rows: func(*step) byRow {
				pixels, ch := dx[1]*dx[2], dx[3]
				return byRow{rows: dx[0], in: []int{ch}, out: []int{pixels * ch}, run: func(b stretch) {
					kernel.GlobalAvgPoolGrad(b.out[0], b.in[0], b.n, pixels, ch)
				}}
			},
		}
	})
}

func poolTraits(c *graph.Call, win graph.Window, pool func(y, x []float32, p kernel.Pool, from, to int), moved func(before int) graph.Op) traits {
	p := poolOf(win, c.In[0].Shape, c.Out[0].Shape)
	return traits{
		rule:   windows(c, poolReach(p), moved),
		blocks: func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.pool(p, pool) },
		kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(p.N*p.OH, part, parts, 1)
			pool(out[0], in[0], p, from, to)
		}),
	}
}

// poolGradTraits are those of a gradient of images, for some of the examples and channels.
func poolGradTraits(c *graph.Call, p kernel.Pool, moved func(before int) graph.Op, run func(dx []float32, in [][]float32, p kernel.Pool, n0, n1, c0, c1 int)) traits {
	return traits{
		rule: wholeWindows(c, poolReach(p), moved),
		blocks: func(k *conversion, _ bool, _ int) (kernelFunc, int) {
			return k.poolGrad(p, func(dx []float32, in [][]float32, p kernel.Pool) { run(dx, in, p, 0, 1, 0, p.C) })
		},
		kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			n0, n1, c0, c1 := shareImages(p.N, p.C, part, parts)
			run(out[0], in, p, n0, n1, c0, c1)
		}),
	}
}

func poolOf(win graph.Window, x, y graph.Shape) kernel.Pool {
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
