package stats

import (
	"testing"

	"gpipebench/internal/testkit"
)

// Quantiles as in printed tables.
func TestStudentQuantile(t *testing.T) {
	for _, c := range []struct {
		p       float64
		degrees int
		want    float64
	}{{0.975, 4, 2.776}, {0.95, 4, 2.132}, {0.975, 1, 12.706}, {0.95, 9, 1.833}} {
		testkit.Near(t, studentQuantile(c.p, c.degrees), c.want, 0.0005, "%v with %d degrees", c.p, c.degrees)
	}
}

// By hand: the differences are 1, 2, 3, 4, 0, of mean 2, variance 10/4 and
// standard error sqrt(2.5/5) = 0.70711, so that the 95% interval is 2 ± 2.77645
// times that, the 90% interval 2 ± 2.13185 times that.
func TestPairs(t *testing.T) {
	p := Pairs([]float64{11, 22, 33, 44, 50}, []float64{10, 20, 30, 40, 50})
	testkit.Equal(t, p.N, 5, "pairs")
	testkit.Equal(t, p.Mean, 2, "mean")
	testkit.Near(t, p.sd, 1.58114, 1e-5, "deviation")
	lo, hi, ok := p.Interval(0.95)
	testkit.Equal(t, ok, true, "there is an interval")
	testkit.Near(t, lo, 0.03676, 1e-4, "lower end")
	testkit.Near(t, hi, 3.96324, 1e-4, "upper end")
	// The 90% interval ends at 2 + 1.50745.
	margin, ok := p.SmallestMargin(0.05)
	testkit.Equal(t, ok, true, "there is a margin")
	testkit.Near(t, margin, 3.50745, 1e-4, "smallest margin")
	// At that margin p is exactly 5%; at 2, the mean, it is one half.
	for _, c := range []struct{ margin, want float64 }{{3.50745, 0.05}, {2, 0.5}, {1, 0.88495}, {4, 0.02355}} {
		testkit.Near(t, p.Equivalence(c.margin), c.want, 2e-3, "margin %v: p", c.margin)
	}
	// The sign of the difference does not matter.
	q := Pairs([]float64{10, 20, 30, 40, 50}, []float64{11, 22, 33, 44, 50})
	if q.Mean != -2 || q.Equivalence(4) != p.Equivalence(4) {
		t.Errorf("the other way round: mean %v, p = %v and %v", q.Mean, q.Equivalence(4), p.Equivalence(4))
	}
	other, _ := q.SmallestMargin(0.05)
	testkit.Equal(t, other, margin, "the other way round: smallest margin")
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
