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

// depthwiseOf describes a depthwise convolution between images x and y.
func depthwiseOf(op graph.DepthwiseOp, x, y graph.Shape) kernel.Depthwise {
	return kernel.Depthwise{
		N: x[0], H: x[1], W: x[2], C: x[3], KH: op.KH, KW: op.KW,
		StrideH: op.SH, StrideW: op.SW, Dilation: op.Dilation, Top: op.Top, Left: op.Left,
		OH: y[1], OW: y[2],
	}
}

func lowerDepthwise(op graph.DepthwiseOp, c *graph.Call) kernelFunc {
	d := depthwiseOf(op, c.In[0].Shape, c.Out[0].Shape)
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(d.N*d.OH, part, parts, 1)
		kernel.DepthwiseForward(d, out[0], in[0], in[1], from, to)
	}
}

func lowerDepthwiseInputGrad(op gradop.DepthwiseInput[graph.DepthwiseOp], c *graph.Call) kernelFunc {
	d := depthwiseOf(op.Of, c.Out[0].Shape, c.In[0].Shape)
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(d.N*d.H, part, parts, 1)
		kernel.DepthwiseGradInput(d, out[0], in[0], in[1], from, to)
	}
}

func lowerDepthwiseWeightGrad(op gradop.DepthwiseWeight[graph.DepthwiseOp], c *graph.Call, accumulates bool) kernelFunc {
	d := depthwiseOf(op.Of, c.In[0].Shape, c.In[1].Shape)
	return func(_ *worker, in, out [][]float32, part, parts int) {
		kh0, kh1, c0, c1 := shareTaps(d, part, parts)
		kernel.DepthwiseGradWeight(d, out[0], in[0], in[1], accumulates, kh0, kh1, c0, c1)
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

func lowerDropPath(op graph.DropPathOp, c *graph.Call) kernelFunc {
	per := perExample(c)
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(len(out[0]), part, parts, align)
		dropPath(w, op, out[0][from:to], in[0][from:to], per, from)
	}
}

// dropPath computes the elements of a micro-batch from first on, of which an example has
// per. It draws one number for each example.
func dropPath(w *worker, op graph.DropPathOp, dst, x []float32, per, first int) {
	rate := op.At(w.env.Step)
	keep := float32(1 / (1 - rate))
	key := philox.KeyOf(w.env.Seed, op.Path)
	for i := 0; i < len(dst); {
		example, within := (first+i)/per, (first+i)%per
		end := min(len(dst), i+per-within)
		index := w.env.Example + uint64(example)
		word := philox.Block(key, [4]uint32{0, uint32(w.env.Step), uint32(index), uint32(w.env.Step>>32) ^ uint32(index>>32)<<16})[0]
		if word < uint32(rate*(1<<32)) {
			kernel.Zero(dst[i:end])
		} else {
			kernel.Scale(dst[i:end], x[i:end], keep)
		}
		i = end
	}
}
