// Package stats has the means, intervals and tests that tables use, and chooses the runs that
// cover the pairs of settings.
package stats

import (
	"math"
	"slices"
)

// Interval returns the confidence interval of the median by order statistics,
// for independent values of any distribution: of n, sorted, the median of their distribution is
// between the d-th smallest and the d-th largest with probability 1 - 2 P(X <
// d), X binomial with n trials at 1/2 (David and Nagaraja, Order Statistics,
// 3rd ed., section 7.1). d is the largest with at least the given confidence.
// ok is false if none has, for 95% with fewer than 6 values.
func Interval(values []float64, confidence float64) (lo, hi float64, ok bool) {
	n := len(values)
	d, outside := 0, 0.0 // outside is P(X < d)
	term := math.Pow(0.5, float64(n))
	for d < n/2 && 1-2*(outside+term) >= confidence {
		outside += term
		term *= float64(n-d) / float64(d+1)
		d++
	}
	if d == 0 {
		return 0, 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[d-1], sorted[n-d], true
}

// LeastForInterval returns the minimum number of values for Interval.
func LeastForInterval(confidence float64) int {
	n := 1
	for ; 1-2*math.Pow(0.5, float64(n)) < confidence; n++ {
	}
	return n
}
