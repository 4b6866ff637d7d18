package verdict

import (
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

// pairsOf are differences of which some are above 0, some below and the rest 0.
func pairsOf(n, above, below int) []float64 {
	all := slices.Concat(slices.Repeat([]float64{0.5}, above), slices.Repeat([]float64{-7}, below))
	return Signs(append(all, make([]float64, n-above-below)...))
}

// The exact test of signs decides with 6 of 6 (p = 2/64) and with 9 against 1 (22/1024), not with 5 of 5 (2/32)
// nor 8 against 1 (20/512), however large the differences are, and however many are 0.
func TestSigns(t *testing.T) {
	d := Design{Level: 0.05, Looks: []int{12}}
	for _, c := range []struct {
		above, below int
		p            float64
		want         Verdict
	}{
		{6, 0, 2.0 / 64, Agrees}, {9, 1, 22.0 / 1024, Agrees}, {5, 0, 2.0 / 32, Open}, {7, 1, 18.0 / 256, Open}, {8, 1, 20.0 / 512, Agrees},
		{0, 6, 2.0 / 64, Disagrees}, {3, 3, 1, Open}, {0, 0, 1, Open},
	} {
		r := d.Judge([]Comparison{{Name: "c", Test: Sign, Differences: [][]float64{pairsOf(12, c.above, c.below)}}})[0]
		testkit.Equal(t, r.Verdict, c.want, "%d and %d", c.above, c.below)
		testkit.Near(t, r.P, c.p, 1e-9, "%d and %d: p", c.above, c.below)
		testkit.Near(t, r.Mean, float64(c.above-c.below)/float64(max(1, c.above+c.below)), 1e-12, "%d and %d: mean", c.above, c.below)
		if (r.Low > 0) != (c.want == Agrees) || (r.High < 0) != (c.want == Disagrees) {
			t.Errorf("%d and %d: an interval from %v to %v", c.above, c.below, r.Low, r.High)
		}
	}
	// 6 of 6: Clopper and Pearson's lower end is (level/2)^(1/6), however many are 0.
	lo, hi := newSigns(pairsOf(12, 6, 0)).ends(0.05)
	testkit.Near(t, lo, 2*math.Pow(0.025, 1.0/6)-1, 1e-9, "lower end")
	testkit.Near(t, hi, 1, 1e-9, "upper end")
	// What never differs may do so either way, and two infinite ones are alike.
	lo, hi = newSigns(make([]float64, 3)).ends(0.05)
	testkit.Equal(t, [2]float64{lo, hi}, [2]float64{-1, 1}, "of none")
	if got := Signs([]float64{math.Inf(1) - math.Inf(1), math.Inf(1)}); !slices.Equal(got, []float64{0, 1}) {
		t.Errorf("signs of infinite differences: %v", got)
	}
	// Of 12 signs 10 must be equal (p = 158/4096): at 80% power 10 or more with probability pi.
	seen := detectableSigns(12, 0.05)
	testkit.Near(t, tail(10, 12, (1+seen)/2), 0.8, 1e-6, "%v is seen in a share of", seen)
	testkit.Equal(t, detectableSigns(4, 0.05), 1, "of 4 signs")
}
