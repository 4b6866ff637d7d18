package program

import (
	"unsafe"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
)

// The kernels that sum, repeat or move elements. Threads share the examples or
// whatever precedes the dimensions concerned. Then those that move channels, row by row.

func init() {
	register(func(op graph.SumOp, c *graph.Call) traits {
		return traits{kernel: func(*step, bool, int) (kernelFunc, int) {
			outer, n, inner := op.Dims(c.In[0].Shape)
			return func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(outer, part, parts, 1)
				kernel.Sum(out[0][from*inner:to*inner], in[0][from*n*inner:to*n*inner], to-from, n, inner)
			}, 0
		}}
	})
	register(func(op graph.RepeatOp, c *graph.Call) traits {
		return traits{elementwise: true, kernel: func(*step, bool, int) (kernelFunc, int) {
			x := c.In[0].Shape
			outer, inner := x[:op.Axis].Elems(), x[op.Axis:].Elems()
			if outer == 1 { // a parameter: threads share the copies
				return func(_ *worker, in, out [][]float32, part, parts int) {
					from, to := share(op.N, part, parts, 1)
					kernel.Repeat(out[0][from*inner:to*inner], in[0], 1, to-from, inner)
				}, 0
			}
			return func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(outer, part, parts, 1)
				kernel.Repeat(out[0][from*op.N*inner:to*op.N*inner], in[0][from*inner:to*inner], to-from, op.N, inner)
			}, 0
		}}
	})
	register(func(op graph.TransposeOp, c *graph.Call) traits {
		return traits{elementwise: true, kernel: func(*step, bool, int) (kernelFunc, int) {
			x := c.In[0].Shape
			outer, mid, inner := x[:op.A].Elems(), x[op.A+1:op.B].Elems(), x[op.B+1:].Elems()
			a, b := x[op.A], x[op.B]
			each := a * mid * b * inner
			return func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(outer, part, parts, 1)
				kernel.Transpose(out[0][from*each:to*each], in[0][from*each:to*each], to-from, a, mid, b, inner)
			}, 0
		}}
	})
	register(func(_ graph.ReshapeOp, c *graph.Call) traits {
		t := unary(c, move)
		t.rule, t.blocks, t.reshapes = rule{}, asItIs, true
		return t
	})
	register(func(op graph.OneHotOp, c *graph.Call) traits {
		return traits{
			elementwise: true,
			activation:  func(s *storage) (is, known bool) { return true, s.Rounded }, // inferred as float32 for want of a choice
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(c.In[0].Elems(), part, parts, 1)
				kernel.Zero(out[0][from*op.Classes : to*op.Classes])
				for i, id := range ints(in[0])[from:to] {
					if id >= 0 {
						out[0][(from+i)*op.Classes : (from+i+1)*op.Classes][id] = 1
					}
				}
			}),
		}
	})
	register(func(_ graph.ExampleSumOp, c *graph.Call) traits {
		return traits{rows: sumOfRows(c.In[0].Shape[0], perExample(c))}
	})

	register(func(_ graph.ConcatOp, c *graph.Call) traits {
		rows, width := matrix(c.Out[0])
		r := &byRow{rows: rows, out: []int{width}, run: func(b stretch) {
			at := 0
			for i, x := range c.In {
				kernel.CopyColumns(b.out[0][at:], width, b.in[i], x.Shape.Last(), b.n, x.Shape.Last())
				at += x.Shape.Last()
			}
		}}
		for _, x := range c.In {
			r.in = append(r.in, x.Shape.Last())
		}
		return traits{elementwise: true, rule: ownRows(c), rows: r}
	})
	register(func(op graph.SliceOp, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		width := op.To - op.From
		t := traits{elementwise: true, gathers: true, rule: ownRows(c)}
		t.rows = &byRow{rows: rows, in: []int{cols}, out: []int{width}, run: func(b stretch) {
			kernel.CopyColumns(b.out[0], width, b.in[0][op.From:], cols, b.n, width)
		}}
		return t
	})
	register(func(op graph.PadOp, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		width := c.Out[0].Shape.Last()
		t := traits{elementwise: true, rule: ownRows(c)}
		t.rows = &byRow{rows: rows, in: []int{cols}, out: []int{width}, run: func(b stretch) {
			kernel.Zero(b.out[0])
			kernel.CopyColumns(b.out[0][op.Before:], width, b.in[0], cols, b.n, cols)
		}}
		return t
	})
}

// move copies x unless it is in its place already.
func move(dst, x []float32) {
	if unsafe.SliceData(dst) != unsafe.SliceData(x) {
		copy(dst, x)
	}
}
