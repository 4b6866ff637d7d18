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

// kernel returns the kernel of operands that need no conversion.
func (r *byRow) kernel(s *step, accumulates bool) kernelFunc {
	if r.adds {
		return fromZero(!accumulates, func(w *worker, in, out [][]float32, part, parts int) {
			r.run(stretch{w, s, in, out, 0, r.rows, part, parts})
		})
	}
	sizes := r.in
	if s.add != nil {
		sizes = append(slices.Clip(sizes), r.out[0])
	}
	cut := func(to, of [][]float32, sizes []int, first, end int) [][]float32 {
		for i, size := range sizes {
			to[i] = of[i]
			if size > 0 {
				to[i] = of[i][first*size : end*size]
			}
		}
		return to[:len(sizes)]
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(r.rows, part, parts, max(r.unit, 1))
		if from < to {
			r.run(stretch{w, s, cut(w.in[:], in, sizes, from, to), cut(w.out[:], out, r.out, from, to), from, to - from, 0, 1})
		}
	}
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

// byRows lowers an op by blocks of rows.
func (k *conversion) byRows(r *byRow, s *step) (kernelFunc, int) {
	widest, each := 1, 0
	measure := func(forms []form, sizes []int) {
		for i, size := range sizes {
			if forms[i] != wide {
				widest, each = max(widest, size), each+size
			}
		}
	}
	measure(k.in, r.in)
	measure(k.out, r.out)
	most := min(r.rows, max(1, blockFloats/widest))
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to, own, of := 0, r.rows, part, parts
		if !r.adds {
			from, to = share(r.rows, part, parts, 1)
			own, of = 0, 1
		}
		for first := from; first < to; first += most {
			n := min(most, to-first)
			free := w.scratch
			for i, size := range r.in {
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
	}, most * each
}
