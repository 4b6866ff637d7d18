package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/internal/gradop"
)

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

// embeds returns the gradient of a table that a call computes as rows, if it is one.
func embeds(call *graph.Call) (gradop.Embed, bool) {
	op, ok := attributesOf(call.Op).(gradop.Embed)
	return op, ok
}

// asRows sets what is known of a use before anything runs, if its gradient is rows.
func (u *Use) asRows(gradient *graph.Node) {
	if op, ok := embeds(gradient.Call); ok {
		u.Rows, u.Scale = gradient.Call.In[1].Elems(), op.Scale
	}
}

// offered reports whether the instruction computes a gradient as rows and these have been
// taken, so that they are not added up here.
func (o *Options) offered(in *Instr, operands [][]float32) bool {
	if o.Rows == nil || in.step == nil || len(in.out) == 0 || in.out[0].Space != Grads {
		return false
	}
	if _, ok := embeds(in.step.last()); !ok {
		return false
	}
	dy := in.step.in[0]
	return o.Rows(RowGradient{
		Use: in.out[0], Dim: dy.Shape.Last(), IDs: ints(operands[1])[:in.step.in[1].Elems()],
		rows: operands[0], narrow: in.store.narrow(dy),
	})
}
