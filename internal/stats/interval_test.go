package stats

import (
	"math"
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

// If all or none of n trials succeed, the interval has a closed form; that of
// one in ten is in printed tables.
func TestRateInterval(t *testing.T) {
	for n := 1; n < 10; n++ {
		end := 1 - math.Pow(0.025, 1/float64(n))
		if lo, hi := RateInterval(0, n); lo != 0 || !near(hi, end, 1e-9) {
			t.Errorf("0 of %d: [%v, %v], want [0, %v]", n, lo, hi, end)
		}
		if lo, hi := RateInterval(n, n); !near(lo, 1-end, 1e-9) || hi != 1 {
			t.Errorf("%d of %d: [%v, %v], want [%v, 1]", n, n, lo, hi, 1-end)
		}
	}
	if lo, hi := RateInterval(1, 10); !near(lo, 0.0025, 1e-4) || !near(hi, 0.4450, 1e-4) {
		t.Errorf("1 of 10: [%v, %v], want [0.0025, 0.4450]", lo, hi)
	}
}
