package program

import (
	"math"
	"slices"

	"gpipebench/nn/graph"
)

// Whole returns the program with kernels that convert whole operands, with scratch of
// their own, in place of those that convert by blocks.
func (p *Program) Whole() *Program {
	q := *p
	q.Instrs = slices.Clone(p.Instrs)
	for i := range q.Instrs {
		in := &q.Instrs[i]
		accumulates := len(in.out) > 0 && in.out[0].Space == Grads
		k := in.store.convert(in.step, accumulates)
		if k == nil {
			continue
		}
		fn, scratch := k.whole(in.step, accumulates)
		in.kernel = func(w *worker, in, out [][]float32, part, parts int) {
			own := worker{env: w.env, scratch: make([]float32, scratch)}
			own.block = own.epi.block
			fn(&own, in, out, part, parts)
		}
	}
	return &q
}

// Windows reports whether an instruction passes a window over images.
func (in *Instr) Windows() bool {
	return in.traits.rule.moved != nil && in.traits.rule.Division == ByRows
}

// RowsOfPart computes a part's rows of an instruction with windows from nothing but the rows
// of its inputs that the plan gives it, and returns them beside those of the result in b,
// each with the rows of all examples. The instruction has just run there.
func (in *Instr) RowsOfPart(p Piece, part int, b *Binding) (got, want []float32) {
	r, own := in.traits.rule, p.Rows[part]
	d := &spatial{}
	local := d.cost(in, r, p, part).step
	cut := func(x []float32, n *graph.Node, rows Rows) (y []float32) {
		if !images(n) {
			return x
		}
		row := n.Shape[2] * n.Shape[3]
		for e := range n.Shape[0] {
			y = append(y, x[(e*n.Shape[1]+rows.From)*row:(e*n.Shape[1]+rows.To)*row]...)
		}
		return y
	}
	var inputs [][]float32
	for i, n := range in.step.in {
		at := in.in[i]
		inputs = append(inputs, cut(b[at.Space][at.Off:at.End()], n, r.needs(i, own)))
	}
	made := own
	if r.made != nil {
		made = r.made(own)
	}
	out, at := in.step.out[0], in.out[0]
	want = cut(b[at.Space][at.Off:at.End()], out, own)
	result := make([]float32, local.out[0].Elems())
	for i := range result {
		result[i] = float32(math.NaN())
	}
	fn, scratch := lower(local, false, 1)
	w := worker{env: &Env{}, scratch: make([]float32, scratch)}
	w.block = w.epi.block
	fn(&w, inputs, [][]float32{result}, 0, 1)
	return cut(result, local.out[0], Rows{own.From - made.From, own.To - made.From}), want
}
