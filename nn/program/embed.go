package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Tables of embeddings, whose gradients may leave a program as rows.

func init() {
	register(func(o op.Embed, c *graph.Call) traits {
		time, dim := c.Out[0].Shape[1], c.Out[0].Shape[2]
		return traits{gathers: true, rows: &byRow{rows: c.In[1].Elems(), in: []int{0, 1, 0}[:len(c.In)], out: []int{dim}, unit: time, run: func(b stretch) {
			for i := 0; i < b.n; {
				at := (b.first + i) % time
				end := min(b.n, i+time-at)
				var positions []float32
				if len(b.in) > 2 {
					positions = b.in[2][at*dim:]
				}
				kernel.Embed(b.out[0][i*dim:end*dim], b.in[0], ints(b.in[1])[i:end], dim, o.Scale, positions, time)
				i = end
			}
		}}}
	})
	register(func(o op.EmbedGrad, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		return traits{scatters: true, rows: &byRow{rows: rows, in: []int{cols, 1}, out: []int{0}, adds: true, run: func(b stretch) {
			from, to := shareColumns(cols, b.part, b.parts)
			kernel.EmbedGrad(b.out[0], b.in[0], ints(b.in[1]), cols, from, to, o.Scale)
		}}}
	})
}

// RowGradient is the gradient of a table of embeddings as a backward program computes it:
// one row for each token, which the program would add to the row of its accumulator that
// the token names. [AddRows] does that later.
type RowGradient struct {
	Use  Operand // the accumulator
	Dim  int     // width of the table
	IDs  []int32 // of the rows; must not be kept
	rows []float32
	// narrow: rows has bfloat16.
	narrow bool
}

// CopyTo copies the rows from from to to-1 to dst, which is (to-from, Dim). They are not
// scaled yet.
func (g RowGradient) CopyTo(dst []float32, from, to int) {
	if g.narrow {
		kernel.Widen(dst, halves(g.rows)[from*g.Dim:to*g.Dim])
		return
	}
	copy(dst, g.rows[from*g.Dim:to*g.Dim])
}

// AddRows adds scale times each of the rows, which are (len(ids), dim), to the row of table
// that its id names, in ascending order, in the columns from from to to-1: the chain of
// the backward program that made them, continued from what is in table.
func AddRows(table, rows []float32, ids []int32, dim, from, to int, scale float32) {
	kernel.EmbedGrad(table, rows, ids, dim, from, to, scale)
}

// asRows sets what is known of a use before anything runs, if its gradient is rows.
func (u *Use) asRows(gradient *graph.Node) {
	if o, ok := gradient.Call.Op.(op.EmbedGrad); ok {
		u.Rows, u.Scale = gradient.Call.In[1].Elems(), o.Scale
	}
}

// offered reports whether the instruction computes a gradient as rows and these have been
// taken, so that they are not added up here.
func (o *Options) offered(in *Instr, operands [][]float32) bool {
	if o.Rows == nil || in.step == nil || len(in.out) == 0 || in.out[0].Space != Grads {
		return false
	}
	if _, ok := in.step.last().Op.(op.EmbedGrad); !ok {
		return false
	}
	dy := in.step.in[0]
	return o.Rows(RowGradient{
		Use: in.out[0], Dim: dy.Shape.Last(), IDs: ints(operands[1])[:in.step.in[1].Elems()],
		rows: operands[0], narrow: in.store.narrow(dy),
	})
}
