package program

import (
	"cmp"
	"slices"
)

// buffer is a piece of the workspace and the instructions during which it is
// alive, both ends included.
type buffer struct {
	first, last int
	size        int // floats
	off         int // set by pack
}

// pack gives every buffer an offset so that no two that are alive at once
// overlap, and returns the span. It is greedy by size (Pisarchyk and Lee,
// Efficient Memory Management for Deep Neural Net Inference, 2020, algorithm
// 3): the largest buffer first, each into the smallest gap that it fits between
// those already placed. It is deterministic: ties go to the buffer that is born
// first.
//
// Only buffers that are alive together are compared, so that ten thousand
// layers take ten thousand times as long as one.
func pack(buffers []*buffer) (span int) {
	order := slices.Clone(buffers)
	slices.SortStableFunc(order, func(a, b *buffer) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
	})
	steps := 0
	for _, b := range buffers {
		steps = max(steps, b.last+1)
	}
	lives, births := make([]int, steps), make([]int, steps)
	for _, b := range buffers {
		births[b.first]++
		for t := b.first; t <= b.last; t++ {
			lives[t]++
		}
	}
	var (
		alive  = rooms(lives)  // placed buffers, by every step of their lives
		born   = rooms(births) // placed buffers, by their first step
		beside []*buffer
	)
	for _, b := range order {
		beside = append(beside[:0], alive[b.first]...)
		for t := b.first + 1; t <= b.last; t++ {
			beside = append(beside, born[t]...)
		}
		slices.SortFunc(beside, func(p, q *buffer) int { return cmp.Compare(p.off, q.off) })
		end, bestOff, bestGap := 0, -1, 0
		for _, p := range beside {
			if gap := p.off - end; gap >= b.size && (bestOff < 0 || gap < bestGap) {
				bestOff, bestGap = end, gap
			}
			end = max(end, AlignUp(p.off+p.size))
		}
		if bestOff < 0 {
			bestOff = end
		}
		b.off = bestOff
		for t := b.first; t <= b.last; t++ {
			alive[t] = append(alive[t], b)
		}
		born[b.first] = append(born[b.first], b)
		span = max(span, b.off+b.size)
	}
	return span
}

// rooms are empty lists with room for counts[i] buffers each, in one piece of memory.
func rooms(counts []int) [][]*buffer {
	total := 0
	for _, n := range counts {
		total += n
	}
	all, lists := make([]*buffer, total), make([][]*buffer, len(counts))
	for i, n := range counts {
		lists[i], all = all[:0:n], all[n:]
	}
	return lists
}
