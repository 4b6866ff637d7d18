package program

import "gpipebench/internal/kernel"

// Gradients of weights are sums over all rows of all examples in one order, that of the
// undivided stage: examples ascending, and within an example parts ascending. So each number of
// an accumulator is added to by one part after another. But different numbers need not wait
// for each other: the accumulator is cut into as many blocks as there are parts, over which the parts
// follow one another as micro-batches do through a pipeline. While a part adds its rows of an example
// to a block, the part after it adds to the block before that one, which it has just been
// handed. The first part goes on with the next example as soon as the last one is through
// with its first block, which is when it has nothing else to do. So of examples x parts
// + parts - 1 beats a part idles at parts - 1.

// A product whose terms are divided (see [Stage.Split]) goes the same way, once, from zero.

// goesAround reports whether the parts take turns at a result.
func (t *tick) goesAround() bool { return t.Division == Partial || t.Division == InTurns }

// turns adds up the gradient of a weight, or a result, in beats. In the end the first part has all
// of it.
func (r *lockstepRun) turns(t *tick) {
	examples := t.examples
	if t.from {
		kernel.Zero(r.out[0][0])
	}
	parts := len(r.instr)
	items := examples * parts // blocks of examples, for each part
	whole := make([][maxOperands][]float32, parts)
	copy(whole, r.in)
	for beat := range items + parts - 1 {
		for part, in := range r.instr {
			item := beat - part
			if item < 0 || item >= items {
				continue
			}
			e, block := item/parts, item%parts
			for j, n := range in.step.in {
				if images(n) {
					each := in.in[j].Len / examples
					r.in[part][j] = whole[part][j][e*each : (e+1)*each : (e+1)*each]
				}
			}
			if from := before(part, parts); part > 0 || e > 0 {
				if floats := in.block(block, parts, r.threads); floats > 0 {
					r.sent(t.kind, part, from, 4*int64(floats))
				}
			}
		}
		r.hop()
		r.all(func(part, thread int) {
			item := beat - part
			if item < 0 || item >= items {
				return
			}
			share, shares := item%parts*r.threads+thread, parts*r.threads
			if part > 0 || item >= parts {
				r.instr[part].traits.area(share, shares).copy(r.out[part][0], r.out[before(part, parts)][0])
			}
			r.kernel(part, thread, share, shares)
		})
	}
	last := parts - 1
	r.sent(t.kind, 0, last, 4*int64(len(r.out[0][0])))
	r.hop()
	r.all(func(part, thread int) {
		if part == 0 && thread == 0 {
			copy(r.out[0][0], r.out[last][0])
		}
	})
}

// before is the part whose turn is before a part's.
func before(part, parts int) int { return (part + parts - 1) % parts }

// block returns the number of floats of one of the blocks of an accumulator, each of
// which has a share for each thread.
func (in *Instr) block(block, blocks, threads int) (floats int) {
	for thread := range threads {
		floats += in.traits.area(block*threads+thread, blocks*threads).floats()
	}
	return floats
}

// area is some columns of some rows of a matrix.
type area struct{ first, columns, stride, rows int }

func (a area) floats() int { return a.columns * a.rows }

func (a area) copy(into, of []float32) {
	for i := range a.rows {
		at := a.first + i*a.stride
		copy(into[at:at+a.columns], of[at:at+a.columns])
	}
}

// areaOf is some rows and columns of a matrix of the given width.
func areaOf(i0, i1, j0, j1, width int) area {
	return area{first: i0*width + j0, columns: max(j1-j0, 0), stride: width, rows: max(i1-i0, 0)}
}
