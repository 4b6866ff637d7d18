package program

import (
	"cmp"
	"slices"
)

// buffer is a piece of workspace and the instructions during which it is
// alive, both ends included.
type buffer struct {
	first, last int
	size        int // floats
	off         int // set by pack
}

// pack gives every buffer an offset so that no two that are alive at once
// overlap, and returns the span. Greedy by size (Pisarchyk and Lee, Efficient
// Memory Management for Deep Neural Net Inference, 2020, algorithm 3): the
// largest buffer first, each into the smallest gap between those already
// placed that it fits. Deterministic: ties go to the buffer that is born first.
func pack(buffers []*buffer) (span int) {
	order := slices.Clone(buffers)
	slices.SortStableFunc(order, func(a, b *buffer) int {
		if c := cmp.Compare(b.size, a.size); c != 0 {
			return c
		}
		return cmp.Compare(a.first, b.first)
	})
	var placed []*buffer // by offset
	for _, b := range order {
		end, bestOff, bestGap := 0, -1, 0
		for _, p := range placed {
			if p.last < b.first || b.last < p.first {
				continue
			}
			if gap := p.off - end; gap >= b.size && (bestOff < 0 || gap < bestGap) {
				bestOff, bestGap = end, gap
			}
			end = max(end, alignUp(p.off+p.size))
		}
		if bestOff < 0 {
			bestOff = end
		}
		b.off = bestOff
		at, _ := slices.BinarySearchFunc(placed, b, func(p, b *buffer) int { return cmp.Compare(p.off, b.off) })
		placed = slices.Insert(placed, at, b)
		span = max(span, b.off+b.size)
	}
	return span
}
