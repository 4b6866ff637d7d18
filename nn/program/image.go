package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/internal/gradop"
	"gpipebench/nn/philox"
)

// The kernels of images: convolutions, pools, and operations that move
// channels.

// convOf describes a convolution between images x and y with weight w.
func convOf(win graph.Window, x, w, y graph.Shape) kernel.Conv {
	return kernel.Conv{
		N: x[0], H: x[1], W: x[2], C: x[3], KH: w[0], KW: w[1],
		StrideH: win.SH, StrideW: win.SW, Top: win.Top, Left: win.Left,
		OH: y[1], OW: y[2], O: y[3],
	}
}

func lowerConv(op graph.Conv2DOp, c *graph.Call, threads int) (kernelFunc, int) {
	v := convOf(op.Window, c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape)
	return func(w *worker, in, out [][]float32, part, parts int) {
		kernel.ConvForward(v, out[0], in[0], in[1], part, parts, w.scratch)
	}, kernel.ConvForwardScratch(v, threads)
}

func lowerConvInputGrad(op gradop.ConvInput[graph.Window], c *graph.Call, threads int) (kernelFunc, int) {
	v := convOf(op.Window, c.Out[0].Shape, c.In[1].Shape, c.In[0].Shape)
	return func(w *worker, in, out [][]float32, part, parts int) {
		kernel.ConvGradInput(v, out[0], in[0], in[1], part, parts, w.scratch)
	}, kernel.ConvGradInputScratch(v, threads)
}

func lowerConvWeightGrad(op gradop.ConvWeight[graph.Window], c *graph.Call, accumulates bool, threads int) (kernelFunc, int) {
	v := convOf(op.Window, c.In[0].Shape, c.Out[0].Shape, c.In[1].Shape)
	return func(w *worker, in, out [][]float32, part, parts int) {
		kernel.ConvGradWeight(v, out[0], in[0], in[1], accumulates, part, parts, w.scratch)
	}, kernel.ConvGradWeightScratch(v, threads)
}

func poolOf(win graph.Window, x, y graph.Shape) kernel.Pool {
	return kernel.Pool{
		N: x[0], H: x[1], W: x[2], C: x[3], KH: win.KH, KW: win.KW,
		StrideH: win.SH, StrideW: win.SW, Top: win.Top, Left: win.Left,
		OH: y[1], OW: y[2],
	}
}

func lowerPool(p kernel.Pool, pool func(y, x []float32, p kernel.Pool, from, to int)) kernelFunc {
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(p.N*p.OH, part, parts, 1)
		pool(out[0], in[0], p, from, to)
	}
}

func lowerMaxPoolGrad(op gradop.MaxPool[graph.Window], c *graph.Call) kernelFunc {
	p := poolOf(op.Window, c.In[1].Shape, c.In[0].Shape)
	return func(_ *worker, in, out [][]float32, part, parts int) {
		n0, n1, c0, c1 := shareImages(p.N, p.C, part, parts)
		kernel.MaxPoolGrad(out[0], in[0], in[1], in[2], p, n0, n1, c0, c1)
	}
}

func lowerAvgPoolGrad(op gradop.AvgPool[graph.Window], c *graph.Call) kernelFunc {
	p := poolOf(op.Window, c.Out[0].Shape, c.In[0].Shape)
	return func(_ *worker, in, out [][]float32, part, parts int) {
		n0, n1, c0, c1 := shareImages(p.N, p.C, part, parts)
		kernel.AvgPoolGrad(out[0], in[0], p, n0, n1, c0, c1)
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

func lowerGlobalAvgPool(c *graph.Call) kernelFunc {
	x := c.In[0].Shape
	n, pixels, ch := x[0], x[1]*x[2], x[3]
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(n, part, parts, 1)
		kernel.GlobalAvgPool(out[0][from*ch:to*ch], in[0][from*pixels*ch:to*pixels*ch], to-from, pixels, ch)
	}
}

func lowerGlobalAvgPoolGrad(c *graph.Call) kernelFunc {
	x := c.Out[0].Shape
	n, pixels, ch := x[0], x[1]*x[2], x[3]
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(n, part, parts, 1)
		kernel.GlobalAvgPoolGrad(out[0][from*pixels*ch:to*pixels*ch], in[0][from*ch:to*ch], to-from, pixels, ch)
	}
}

func lowerConcat(c *graph.Call) kernelFunc {
	rows, cols := matrix(c.Out[0])
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		if from == to {
			return
		}
		at := 0
		for i, n := range c.In {
			width := n.Shape.Last()
			kernel.CopyColumns(out[0][from*cols+at:], cols, in[i][from*width:], width, to-from, width)
			at += width
		}
	}
}

func lowerSlice(op graph.SliceOp, c *graph.Call) kernelFunc {
	rows, cols := matrix(c.In[0])
	width := op.To - op.From
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		if from == to {
			return
		}
		kernel.CopyColumns(out[0][from*width:], width, in[0][from*cols+op.From:], cols, to-from, width)
	}
}

func lowerPad(op graph.PadOp, c *graph.Call) kernelFunc {
	rows, cols := matrix(c.Out[0])
	width := c.In[0].Shape.Last()
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		if from == to {
			return
		}
		kernel.Zero(out[0][from*cols : to*cols])
		kernel.CopyColumns(out[0][from*cols+op.Before:], cols, in[0][from*width:], width, to-from, width)
	}
}

// lowerDropPath draws one number for each example.
func lowerDropPath(op graph.DropPathOp, c *graph.Call) kernelFunc {
	x := c.In[0]
	per := x.Elems() / x.Shape[0]
	keep := float32(1 / (1 - float64(op.Rate)))
	return func(w *worker, in, out [][]float32, part, parts int) {
		key := philox.KeyOf(w.env.Seed, op.Path)
		from, to := share(len(out[0]), part, parts, align)
		for from < to {
			example := from / per
			end := min(to, (example+1)*per)
			index := w.env.Example + uint64(example)
			word := philox.Block(key, [4]uint32{0, uint32(w.env.Step), uint32(index), uint32(w.env.Step>>32) ^ uint32(index>>32)<<16})[0]
			if word < uint32(float64(op.Rate)*(1<<32)) {
				kernel.Zero(out[0][from:end])
			} else {
				kernel.Scale(out[0][from:end], in[0][from:end], keep)
			}
			from = end
		}
	}
}
