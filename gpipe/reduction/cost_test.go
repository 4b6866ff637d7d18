package reduction

import (
	"math"
	"testing"

	"gpipebench/gpipe/clock"
)

// The closed forms: ring 2(n-1)/n B/bw + 2(n-1)a; tree the same bytes and 2 log2 n
// latencies; 2-D: the second ring has 1/x of the data, 2(x+y-2)a.
func TestCost(t *testing.T) {
	link := clock.Link{Bandwidth: 1e9, Latency: 1e-5}
	for _, c := range []struct {
		kind Kind
		x, y int
		want float64
	}{
		{Ring, 4, 2, 2 * (7./8*0.4 + 7e-5)},
		{Tree, 4, 2, 2 * (7./8*0.4 + 3e-5)},
		{Tree, 3, 2, 2 * (5./6*0.4 + 3e-5)},
		{Torus, 4, 2, 2 * (3./4*0.4 + 1./2*0.1 + 4e-5)},
		{Torus, 8, 1, 2 * (7./8*0.4 + 7e-5)},
		{Ring, 1, 1, 0}, {Tree, 1, 1, 0}, {Torus, 1, 1, 0},
	} {
		reduce, gather := Cost(c.kind, c.x, c.y, 4e8, link)
		if got := reduce + gather; math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v over %d x %d: %v s, want %v", c.kind, c.x, c.y, got, c.want)
		}
	}
	if reduce, gather := Cost(Ring, 8, 1, 4e8, clock.Link{}); reduce != 0 || gather != 0 {
		t.Errorf("a free link takes %v and %v s", reduce, gather)
	}
}
