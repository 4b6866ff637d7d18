package program

import (
	"slices"
	"unsafe"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
)

// Activations in bfloat16: see the package comment.

// form is how an operand's elements are stored, and read.
type form uint8

const (
	wide    form = iota // float32 or int32
	narrow              // bfloat16, two in the memory of a float
	rounded             // float32, rounded to bfloat16 when read: an operand of a product, as its weight
)

// blockFloats is about how many floats of an operand are converted at once: they stay
// in the second-level cache.
const blockFloats = 1 << 13

// load returns the n elements of x from the given one on, in dst or in place.
func (f form) load(dst, x []float32, from, n int) []float32 {
	switch f {
	case narrow:
		kernel.Widen(dst[:n], halves(x)[from:from+n])
	case rounded:
		kernel.RoundBF16(dst[:n], x[from:from+n])
	default:
		return x[from : from+n : from+n]
	}
	return dst[:n]
}

// loadRows sets dst to rows of cols elements each, the first at from, ld apart.
func (f form) loadRows(dst, x []float32, from, rows, cols, ld int) {
	for i := range rows {
		row := dst[i*cols : (i+1)*cols]
		if f == wide {
			copy(row, x[from+i*ld:])
			continue
		}
		f.load(row, x, from+i*ld, cols)
	}
}

// store writes results to x from the given element on.
func (f form) store(x []float32, from int, results []float32) {
	if f == narrow {
		kernel.Narrow(halves(x)[from:from+len(results)], results)
		return
	}
	copy(x[from:from+len(results)], results)
}

// storeRows is store of rows of cols elements each, ld apart.
func (f form) storeRows(x []float32, from int, results []float32, rows, cols, ld int) {
	if cols == ld {
		f.store(x, from, results[:rows*cols])
		return
	}
	for i := range rows {
		f.store(x, from+i*ld, results[i*cols:(i+1)*cols])
	}
}

// halves views memory as bfloat16.
func halves(x []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}

// conversion has the forms of a step's operands.
type conversion struct{ in, out []form }

// convert returns the conversion of a step whose outputs are accumulators if it
// accumulates, or nil if there is nothing to convert.
func (s *storage) convert(st *step, accumulates bool) *conversion {
	k := &conversion{make([]form, len(st.in)), make([]form, len(st.out))}
	product := s.Rounded && st.traits().product.ofWeight()
	for i, n := range st.in {
		switch {
		case s.narrow(n):
			k.in[i] = narrow
		case n.DType == graph.F32 && product:
			k.in[i] = rounded
		}
	}
	for i, n := range st.out {
		if !accumulates && s.narrow(n) {
			k.out[i] = narrow
		}
	}
	if !slices.ContainsFunc(slices.Concat(k.in, k.out), func(f form) bool { return f != wide }) {
		return nil
	}
	return k
}

// lower is the function of the same name for a step with conversions.
func (k *conversion) lower(s *step, accumulates bool, threads int) (kernelFunc, int) {
	t := s.traits()
	if t.blocks != nil {
		if fn, scratch := t.blocks(k, accumulates, threads); fn != nil {
			return fn, scratch
		}
	}
	if r := t.rows; r != nil && (accumulates || !r.adds) && k.cuts(r) {
		return r.lower(k, s, accumulates)
	}
	return k.whole(s, accumulates)
}

// whole lowers an op by converting whole operands on one thread: for ops that are rare
// or small, and callers' own.
func (k *conversion) whole(s *step, accumulates bool) (kernelFunc, int) {
	fn, own := lower(s, accumulates, 1)
	scratch := own
	sizes := func(forms []form, nodes []*graph.Node) []int {
		elems := make([]int, len(nodes))
		for i, n := range nodes {
			elems[i] = n.Elems()
			if forms[i] != wide {
				scratch += AlignUp(elems[i])
			}
		}
		return elems
	}
	ins, outs := sizes(k.in, s.in), sizes(k.out, s.out)
	return func(w *worker, in, out [][]float32, part, _ int) {
		if part > 0 {
			return
		}
		free := w.scratch[own:]
		for i, f := range k.in {
			w.in[i] = in[i]
			if f != wide {
				w.in[i] = f.load(free, in[i], 0, ins[i])
				free = free[AlignUp(ins[i]):]
			}
		}
		for i, f := range k.out {
			w.out[i] = out[i]
			if f != wide {
				w.out[i] = free[:outs[i]]
				free = free[AlignUp(outs[i]):]
			}
		}
		fn(w, w.in[:len(in)], w.out[:len(out)], 0, 1)
		for i, f := range k.out {
			if f != wide {
				f.store(out[i], 0, w.out[i])
			}
		}
	}, scratch
}

// cutFloats cuts pieces off memory.
func cutFloats(x []float32, sizes ...int) (pieces [maxOperands][]float32) {
	for i, n := range sizes {
		pieces[i], x = x[:n:n], x[n:]
	}
	return pieces
}
