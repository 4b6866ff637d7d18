package verdict

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Signs are the signs of differences: 1, 0 or -1 for each; 0 of two that are both infinite.
func Signs(differences []float64) []float64 {
	signs := make([]float64, len(differences))
	for i, d := range differences {
		if d < 0 || d > 0 {
			signs[i] = math.Copysign(1, d)
		}
	}
	return signs
}

// signs are how many of n differences are above 0 and below it.
type signs struct{ plus, minus int }

func newSigns(differences []float64) signs {
	var s signs
	for _, d := range differences {
		switch {
		case d > 0:
			s.plus++
		case d < 0:
			s.minus++
		}
	}
	return s
}

// mean is the mean sign of the differences that are not 0; 0 if there are none.
func (s signs) mean() float64 { return float64(s.plus-s.minus) / float64(max(1, s.plus+s.minus)) }

// above and below are by the exact test of whether both signs are equally likely, which is about 0, the
// only margin that there is.
func (s signs) above(float64) float64 { return min(1, 2*tail(s.plus, s.plus+s.minus, 0.5)) }
func (s signs) below(float64) float64 { return min(1, 2*tail(s.minus, s.plus+s.minus, 0.5)) }

// ends are of the mean sign of the differences that are not 0, by those of the share above 0 (Clopper and
// Pearson, Biometrika 26, 1934).
func (s signs) ends(level float64) (low, high float64) {
	least, most := 0.0, 1.0
	if s.plus > 0 {
		least = mathext.InvRegIncBeta(float64(s.plus), float64(s.minus+1), level/2)
	}
	if s.minus > 0 {
		most = mathext.InvRegIncBeta(float64(s.plus+1), float64(s.minus), 1-level/2)
	}
	return 2*least - 1, 2*most - 1
}

// tail is the probability of k or more of n, each with probability p.
func tail(k, n int, p float64) float64 {
	if k <= 0 {
		return 1
	}
	return 1 - distuv.Binomial{N: float64(n), P: p}.CDF(float64(k-1))
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

// Tally counts the seeds whose difference is above 0, and below it, of a comparison's first part.
func (c Comparison) Tally(seeds int) (above, below int) {
	s := newSigns(c.Differences[0][:seeds])
	return s.plus, s.minus
}
