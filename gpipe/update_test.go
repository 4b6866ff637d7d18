package gpipe

import (
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/program"
)

// TestWeightsOf: every weight belongs to one thread, in order, and no thread exceeds
// its share by more than the largest weight.
func TestWeightsOf(t *testing.T) {
	for _, sizes := range [][]int{{}, {5}, {1, 1, 1, 1}, {100, 1, 1, 1}, {1, 1, 1, 100}, {3, 9, 4, 4, 7, 30, 2, 2, 1, 16}} {
		for threads := 1; threads <= 5; threads++ {
			d := &device{pool: program.NewPool(threads)}
			total := 0
			for i, n := range sizes {
				d.weights = append(d.weights, weight{param: i, w: make([]float32, n)})
				total += n
			}
			var got []int
			for part := range threads {
				elems := 0
				for _, w := range d.weightsFor(part) {
					got = append(got, len(w.w))
					elems += len(w.w)
				}
				if len(sizes) > 0 && elems > total/threads+slices.Max(sizes) {
					t.Errorf("%v: thread %d of %d has %d elements of %d", sizes, part, threads, elems, total)
				}
			}
			testkit.EqualAll(t, got, sizes, "%v: %d threads have", sizes, threads)
			d.pool.Close()
		}
	}
}
