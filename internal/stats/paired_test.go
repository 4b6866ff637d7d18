package stats

import (
	"math"
	"testing"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

// Quantiles as in printed tables.
func TestStudentQuantile(t *testing.T) {
	for _, c := range []struct {
		p       float64
		degrees int
		want    float64
	}{{0.975, 4, 2.776}, {0.95, 4, 2.132}, {0.975, 1, 12.706}, {0.95, 9, 1.833}} {
		if got := studentQuantile(c.p, c.degrees); !near(got, c.want, 0.0005) {
			t.Errorf("%v with %d degrees: %v, want %v", c.p, c.degrees, got, c.want)
		}
	}
}

// By hand: the differences are 1, 2, 3, 4, 0, of mean 2, variance 10/4 and
// standard error sqrt(2.5/5) = 0.70711, so that the 95% interval is 2 ± 2.77645
// times that, the 90% interval 2 ± 2.13185 times that.
func TestPairs(t *testing.T) {
	p := Pairs([]float64{11, 22, 33, 44, 50}, []float64{10, 20, 30, 40, 50})
	if p.N != 5 || p.Mean != 2 || !near(p.sd, 1.58114, 1e-5) {
		t.Fatalf("%+v", p)
	}
	if lo, hi, ok := p.Interval(0.95); !ok || !near(lo, 0.03676, 1e-4) || !near(hi, 3.96324, 1e-4) {
		t.Errorf("95%% interval [%v, %v], %v", lo, hi, ok)
	}
	// The 90% interval ends at 2 + 1.50745.
	margin, ok := p.SmallestMargin(0.05)
	if !ok || !near(margin, 3.50745, 1e-4) {
		t.Errorf("smallest margin %v, %v", margin, ok)
	}
	// At that margin p is exactly 5%; at 2, the mean, it is one half.
	for _, c := range []struct{ margin, want float64 }{{3.50745, 0.05}, {2, 0.5}, {1, 0.88495}, {4, 0.02355}} {
		if got := p.Equivalence(c.margin); !near(got, c.want, 2e-3) {
			t.Errorf("margin %v: p = %v, want %v", c.margin, got, c.want)
		}
	}
	// The sign of the difference does not matter.
	q := Pairs([]float64{10, 20, 30, 40, 50}, []float64{11, 22, 33, 44, 50})
	if q.Mean != -2 || q.Equivalence(4) != p.Equivalence(4) {
		t.Errorf("the other way round: mean %v, p = %v and %v", q.Mean, q.Equivalence(4), p.Equivalence(4))
	}
	if got, _ := q.SmallestMargin(0.05); got != margin {
		t.Errorf("the other way round: smallest margin %v, want %v", got, margin)
	}
}

// A single pair shows nothing, and equal differences have no spread.
func TestPairsAtTheEdge(t *testing.T) {
	one := Pairs([]float64{3}, []float64{1})
	if _, _, ok := one.Interval(0.95); ok || one.Mean != 2 || one.sd != 0 || one.Equivalence(100) != 1 {
		t.Errorf("of one pair: %+v, p = %v", one, one.Equivalence(100))
	}
	if _, ok := one.SmallestMargin(0.05); ok {
		t.Error("of one pair: a margin")
	}
	alike := Pairs([]float64{3, 4, 5}, []float64{2, 3, 4})
	if lo, hi, ok := alike.Interval(0.95); !ok || lo != 1 || hi != 1 || alike.Equivalence(1.5) != 0 || alike.Equivalence(1) != 1 {
		t.Errorf("of pairs that are alike: [%v, %v], %v, p = %v and %v", lo, hi, ok, alike.Equivalence(1.5), alike.Equivalence(1))
	}
}
