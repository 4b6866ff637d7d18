package program

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gpipebench/internal/testkit"
)

// packPlainly is the algorithm as the paper prints it: every buffer is compared
// with all that are placed.
func packPlainly(buffers []*buffer) (span int) {
	order := slices.Clone(buffers)
	slices.SortStableFunc(order, func(a, b *buffer) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
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
			end = max(end, AlignUp(p.off+p.size))
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

// TestPack: the offsets are as in the plain algorithm, to the last float.
func TestPack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var ours, plain []*buffer
		for range 1 + r.IntN(60) {
			first := r.IntN(40)
			b := buffer{first: first, last: first + r.IntN(1+r.IntN(20)), size: 1 + r.IntN(1+r.IntN(200))}
			other := b
			ours, plain = append(ours, &b), append(plain, &other)
		}
		if got, want := pack(ours), packPlainly(plain); got != want {
			t.Fatalf("span %d, want %d", got, want)
		}
		for i := range ours {
			if ours[i].off != plain[i].off {
				t.Fatalf("buffer %d at %d, want %d", i, ours[i].off, plain[i].off)
			}
		}
	}
}

// TestPackManyLayers: packing the buffers of ten thousand layers takes seconds,
// not the hour that comparing all with all would.
func TestPackManyLayers(t *testing.T) {
	testkit.NotRaced(t)
	var buffers []*buffer
	for step := range 400_000 {
		buffers = append(buffers, &buffer{first: step, last: step + 3, size: 16 * (1 + step%7)})
	}
	buffers = append(buffers, &buffer{first: 0, last: 400_000, size: 64}) // alive throughout
	start := time.Now()
	if span := pack(buffers); span <= 0 {
		t.Errorf("span %d", span)
	}
	if gone := time.Since(start); gone > 20*time.Second {
		t.Errorf("%v", gone)
	}
}
