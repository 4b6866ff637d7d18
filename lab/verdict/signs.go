package verdict

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"gpipebench/internal/stats"
)

// counted are how many differences are above 0 and below it.
func counted(differences []float64) (above, below int) {
	for _, d := range differences {
		switch {
		case d > 0:
			above++
		case d < 0:
			below++
		}
	}
	return above, below
}

// tail is the probability of k or more of n, each with probability p.
func tail(k, n int, p float64) float64 {
	if k <= 0 {
		return 1
	}
	return 1 - distuv.Binomial{N: float64(n), P: p}.CDF(float64(k-1))
}

// signs is estimate by signs alone: the p of a two-sided exact test.
func (c Comparison) signs(n int) Result {
	differences := c.Differences[0][:n]
	above, below := counted(differences)
	signs := make([]float64, n)
	for i, d := range differences {
		if d != 0 {
			signs[i] = math.Copysign(1, d)
		}
	}
	r := Result{Name: c.Name, Verdict: Open, Seeds: n, leans: Agrees}
	r.Mean, r.SD = stats.MeanAndSD(signs)
	r.P = min(1, 2*tail(max(above, below), above+below, 0.5))
	if below > above {
		r.leans = Disagrees
	}
	return r
}

// signInterval is the interval of the mean sign, by that of the share of those above 0 among those that are
// not 0 (Clopper and Pearson, Biometrika 26, 1934).
func signInterval(differences []float64, level float64) (lo, hi float64) {
	above, below := counted(differences)
	n := above + below
	least, most := 0.0, 1.0
	if above > 0 {
		least = mathext.InvRegIncBeta(float64(above), float64(below+1), level/2)
	}
	if below > 0 {
		most = mathext.InvRegIncBeta(float64(above+1), float64(below), 1-level/2)
	}
	scale := float64(n) / float64(len(differences))
	return (2*least - 1) * scale, (2*most - 1) * scale
}

// detectableSigns is the mean sign, of n that are not 0, that is seen at a level in 80% of repetitions; 1 if
// not even n equal ones are seen.
func detectableSigns(n int, level float64) float64 {
	need := n
	for need > 0 && 2*tail(need-1, n, 0.5) <= level {
		need--
	}
	if 2*tail(need, n, 0.5) > level {
		return 1
	}
	lo, hi := 0.5, 1.0
	for hi-lo > 1e-9 {
		if mid := (lo + hi) / 2; tail(need, n, mid) < power {
			lo = mid
		} else {
			hi = mid
		}
	}
	return 2*hi - 1
}
