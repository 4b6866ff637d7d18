package program

import (
	"slices"

	"gpipebench/nn/graph"
)

// byRow is an op whose kernel may be called for any rows of its operands. in and out
// are the elements of a row of each operand; 0: the operand is whole for every call.
type byRow struct {
	rows    int
	in, out []int
	// run computes some rows. An op that adds to whole outputs is called for all rows by
	// every thread, each for its part of the outputs; any other op is called as part 0 of 1.
	run  func(b stretch)
	adds bool
	unit int // threads cut the rows at multiples of it; 0: anywhere
}

// stretch is n rows from the first on, which are what the operands have.
type stretch struct {
	w           *worker
	step        *step
	in, out     [][]float32
	first, n    int
	part, parts int
}

// addend is what the step adds in the same pass, its last input, or nil.
func (b stretch) addend() []float32 {
	if b.step.add == nil {
		return nil
	}
	return b.in[len(b.in)-1]
}

// pointwise is an op each of whose results depends on one element of each input.
func pointwise(c *graph.Call, run func(b stretch)) traits {
	r := &byRow{rows: c.Out[0].Elems(), out: []int{1}, run: run, unit: align}
	for range c.In {
		r.in = append(r.in, 1)
	}
	return traits{elementwise: true, columns: true, rule: ownRows(c), rows: r}
}

func unary(c *graph.Call, f func(dst, x []float32)) traits {
	return pointwise(c, func(b stretch) { f(b.out[0], b.in[0]) })
}

func binary(c *graph.Call, f func(dst, x, y []float32)) traits {
	return pointwise(c, func(b stretch) { f(b.out[0], b.in[0], b.in[1]) })
}

// cuts reports whether all operands that need a conversion are cut by rows.
func (k *conversion) cuts(r *byRow) bool {
	for i, each := range r.in {
		if each == 0 && k.in[i] != wide {
			return false
		}
	}
	for i, each := range r.out {
		if each == 0 && k.out[i] != wide {
			return false
		}
	}
	return true
}

// lower returns the kernel of a step, by blocks of rows if k converts any operand; nil: none needs it.
func (r *byRow) lower(k *conversion, s *step, accumulates bool) (kernelFunc, int) {
	ins := r.in
	if s.add != nil {
		ins = append(slices.Clip(ins), r.out[0])
	}
	if k == nil {
		k = &conversion{make([]form, len(ins)), make([]form, len(r.out))}
	}
	widest, each := 1, 0 // of a row's converted elements
	measure := func(forms []form, sizes []int) {
		for i, size := range sizes {
			if forms[i] != wide {
				widest, each = max(widest, size), each+size
			}
		}
	}
	measure(k.in, ins)
	measure(k.out, r.out)
	unit, most := max(r.unit, 1), r.rows // that are computed at once
	if each > 0 {
		unit, most = 1, min(r.rows, max(1, blockFloats/widest))
	}
	return fromZero(r.adds && !accumulates, func(w *worker, in, out [][]float32, part, parts int) {
		from, to, own, of := 0, r.rows, part, parts
		if !r.adds {
			from, to = share(r.rows, part, parts, unit)
			own, of = 0, 1
		}
		for first := from; first < to; first += most {
			n := min(most, to-first)
			free := w.scratch
			for i, size := range ins {
				w.in[i] = in[i]
				if size > 0 {
					w.in[i] = k.in[i].load(free, in[i], first*size, n*size)
				}
				if k.in[i] != wide {
					free = free[n*size:]
				}
			}
			for i, size := range r.out {
				switch {
				case size == 0:
					w.out[i] = out[i]
				case k.out[i] == wide:
					w.out[i] = out[i][first*size : (first+n)*size]
				default:
					w.out[i] = free[:n*size]
					free = free[n*size:]
				}
			}
			r.run(stretch{w, s, w.in[:len(in)], w.out[:len(out)], first, n, own, of})
			for i, size := range r.out {
				if k.out[i] != wide {
					k.out[i].store(out[i], first*size, w.out[i])
				}
			}
		}
	}), most * each
}
