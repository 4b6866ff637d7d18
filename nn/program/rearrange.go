package program

import (
	"unsafe"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
)

// The kernels that sum, repeat or move elements. Threads share the examples or
// whatever precedes the dimensions concerned.

func lowerSum(op graph.SumOp, c *graph.Call) kernelFunc {
	outer, n, inner := op.Dims(c.In[0].Shape)
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(outer, part, parts, 1)
		kernel.Sum(out[0][from*inner:to*inner], in[0][from*n*inner:to*n*inner], to-from, n, inner)
	}
}

func lowerRepeat(op graph.RepeatOp, c *graph.Call) kernelFunc {
	x := c.In[0].Shape
	outer, inner := x[:op.Axis].Elems(), x[op.Axis:].Elems()
	if outer == 1 { // a parameter: threads share the copies
		return func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(op.N, part, parts, 1)
			kernel.Repeat(out[0][from*inner:to*inner], in[0], 1, to-from, inner)
		}
	}
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(outer, part, parts, 1)
		kernel.Repeat(out[0][from*op.N*inner:to*op.N*inner], in[0][from*inner:to*inner], to-from, op.N, inner)
	}
}

func lowerTranspose(op graph.TransposeOp, c *graph.Call) kernelFunc {
	x := c.In[0].Shape
	outer, mid, inner := x[:op.A].Elems(), x[op.A+1:op.B].Elems(), x[op.B+1:].Elems()
	a, b := x[op.A], x[op.B]
	each := a * mid * b * inner
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(outer, part, parts, 1)
		kernel.Transpose(out[0][from*each:to*each], in[0][from*each:to*each], to-from, a, mid, b, inner)
	}
}

// move copies x unless it is in its place already.
func move(dst, x []float32) {
	if unsafe.SliceData(dst) != unsafe.SliceData(x) {
		copy(dst, x)
	}
}

func lowerOneHot(op graph.OneHotOp, c *graph.Call) kernelFunc {
	rows := c.In[0].Elems()
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(rows, part, parts, 1)
		kernel.Zero(out[0][from*op.Classes : to*op.Classes])
		for i, id := range ints(in[0])[from:to] {
			if id >= 0 {
				out[0][(from+i)*op.Classes : (from+i+1)*op.Classes][id] = 1
			}
		}
	}
}

// lowerExampleSum adds the examples as one chain for each element.
func lowerExampleSum(c *graph.Call) kernelFunc {
	x := c.In[0].Shape
	examples, each := x[0], x[1:].Elems()
	return func(_ *worker, in, out [][]float32, part, parts int) {
		from, to := share(each, part, parts, align)
		kernel.ColSum(out[0][from:to], in[0][from:], examples, to-from, each)
	}
}
