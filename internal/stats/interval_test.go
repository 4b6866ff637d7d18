package stats

import (
	"testing"
)

// The ranks of the 95% interval, from tables of the sign test.
func TestInterval(t *testing.T) {
	for n, rank := range map[int]int{1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 10: 2, 15: 4, 20: 6, 25: 8, 50: 18} {
		var values []float64
		for i := n; i >= 1; i-- {
			values = append(values, float64(i))
		}
		lo, hi, ok := Interval(values, 0.95)
		if ok != (rank > 0) || ok && (lo != float64(rank) || hi != float64(n+1-rank)) {
			t.Errorf("of %d values: [%v, %v], %v; want ranks %d from either end", n, lo, hi, ok, rank)
		}
	}
}
