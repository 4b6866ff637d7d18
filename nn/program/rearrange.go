package program

import (
	"unsafe"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// The kernels that sum, repeat or move elements. Threads share the examples or
// whatever precedes the dimensions concerned. Then those that move channels, row by row.

func init() {
	register(func(o op.Sum, c *graph.Call) traits {
		outer, n, inner := o.Dims(c.In[0].Shape)
		return traits{kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(outer, part, parts, 1)
			kernel.Sum(out[0][from*inner:to*inner], in[0][from*n*inner:to*n*inner], to-from, n, inner)
		})}
	})
	register(func(o op.Max, c *graph.Call) traits {
		return traits{kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			outer, n, inner := o.Dims(c.In[0].Shape)
			from, to := share(outer, part, parts, 1)
			for i := from; i < to; i++ {
				y := out[0][i*inner : (i+1)*inner]
				copy(y, in[0][i*n*inner:])
				for j := 1; j < n; j++ {
					for k, v := range in[0][(i*n+j)*inner : (i*n+j+1)*inner] {
						y[k] = max(y[k], v)
					}
				}
			}
		})}
	})
	register(func(o op.MaxGrad, c *graph.Call) traits {
		return traits{kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			outer, n, inner := op.Max(o).Dims(c.In[1].Shape)
			from, to := share(outer, part, parts, 1)
			kernel.Zero(out[0][from*n*inner : to*n*inner])
			for i := from * inner; i < to*inner; i++ {
				for j := i/inner*n*inner + i%inner; j < (i/inner+1)*n*inner; j += inner {
					if in[1][j] == in[2][i] {
						out[0][j] = in[0][i]
						break
					}
				}
			}
		})}
	})
	register(func(_ op.Gather, c *graph.Call) traits {
		rows, taken := c.In[0].Shape[1], c.In[1].Shape[1]
		each := c.In[0].Shape[2:].Elems()
		return traits{gathers: true, rows: &byRow{rows: c.In[0].Shape[0], in: []int{rows * each, taken}, out: []int{taken * each}, run: func(b stretch) {
			for i, row := range ints(b.in[1]) {
				x := b.in[0][i/taken*rows*each:][: rows*each : rows*each]
				copy(b.out[0][i*each:(i+1)*each], x[int(row)*each:][:each])
			}
		}}}
	})
	register(func(o op.GatherGrad, c *graph.Call) traits {
		taken, each := c.In[1].Shape[1], c.Out[0].Shape[2:].Elems()
		r := &byRow{rows: c.In[0].Shape[0], in: []int{taken * each, taken}, out: []int{o.Rows * each}, run: func(b stretch) {
			kernel.Zero(b.out[0])
			for i, row := range ints(b.in[1]) {
				dx := b.out[0][i/taken*o.Rows*each:][: o.Rows*each : o.Rows*each][int(row)*each:][:each]
				kernel.Add(dx, dx, b.in[0][i*each:(i+1)*each])
			}
		}}
		return traits{rows: r}
	})
	register(func(o op.Repeat, c *graph.Call) traits {
		x := c.In[0].Shape
		outer, inner := x[:o.Axis].Elems(), x[o.Axis:].Elems()
		return traits{elementwise: true, kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			if outer == 1 { // a parameter: threads share the copies
				from, to := share(o.N, part, parts, 1)
				kernel.Repeat(out[0][from*inner:to*inner], in[0], 1, to-from, inner)
				return
			}
			from, to := share(outer, part, parts, 1)
			kernel.Repeat(out[0][from*o.N*inner:to*o.N*inner], in[0][from*inner:to*inner], to-from, o.N, inner)
		})}
	})
	register(func(o op.Transpose, c *graph.Call) traits {
		x := c.In[0].Shape
		outer, mid, inner := x[:o.A].Elems(), x[o.A+1:o.B].Elems(), x[o.B+1:].Elems()
		a, b := x[o.A], x[o.B]
		each := a * mid * b * inner
		return traits{elementwise: true, kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
			from, to := share(outer, part, parts, 1)
			kernel.Transpose(out[0][from*each:to*each], in[0][from*each:to*each], to-from, a, mid, b, inner)
		})}
	})
	register(func(_ op.Reshape, c *graph.Call) traits {
		t := unary(c, move)
		t.rule, t.blocks, t.reshapes, t.columns = rule{}, asItIs, true, false
		return t
	})
	register(func(o op.OneHot, c *graph.Call) traits {
		return traits{
			elementwise: true,
			activation:  func(s *storage) (is, known bool) { return true, s.Rounded }, // inferred as float32 for want of a choice
			kernel: plain(func(_ *worker, in, out [][]float32, part, parts int) {
				from, to := share(c.In[0].Elems(), part, parts, 1)
				kernel.Zero(out[0][from*o.Classes : to*o.Classes])
				for i, id := range ints(in[0])[from:to] {
					if id >= 0 {
						out[0][(from+i)*o.Classes : (from+i+1)*o.Classes][id] = 1
					}
				}
			}),
		}
	})
	register(func(_ op.ExampleSum, c *graph.Call) traits {
		return traits{rows: sumOfRows(c.In[0].Shape[0], perExample(c))}
	})

	register(func(_ op.Concat, c *graph.Call) traits {
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
	register(func(o op.Slice, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		width := o.To - o.From
		return traits{elementwise: true, gathers: true, rule: ownRows(c), rows: &byRow{rows: rows, in: []int{cols}, out: []int{width}, run: func(b stretch) {
			kernel.CopyColumns(b.out[0], width, b.in[0][o.From:], cols, b.n, width)
		}}}
	})
	register(func(o op.Pad, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		width := c.Out[0].Shape.Last()
		return traits{elementwise: true, rule: ownRows(c), rows: &byRow{rows: rows, in: []int{cols}, out: []int{width}, run: func(b stretch) {
			kernel.Zero(b.out[0])
			kernel.CopyColumns(b.out[0][o.Before:], width, b.in[0], cols, b.n, cols)
		}}}
	})
}

// move copies x unless it is in its place already.
func move(dst, x []float32) {
	if unsafe.SliceData(dst) != unsafe.SliceData(x) {
		copy(dst, x)
	}
}
