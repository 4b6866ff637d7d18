package program

import "slices"

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
