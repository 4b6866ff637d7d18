// Package stats has the intervals, means and tests behind tables.
package stats

import (
	"math"
	"slices"
)

// Interval is the confidence interval of the median by order statistics, for
// any distribution: of n values in order, the median of what they are drawn
// from lies between the d-th smallest and the d-th largest with probability
// 1 - 2 P(X < d), X binomial with n trials at 1/2 (David and Nagaraja, Order
// Statistics, 3rd ed., section 7.1). d is the largest that keeps the
// probability at confidence or above; ok is false if there is none, for 95% if
// there are fewer than 6 values.
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

// LeastForInterval is how many values interval takes at least.
func LeastForInterval(confidence float64) int {
	n := 1
	for ; 1-2*math.Pow(0.5, float64(n)) < confidence; n++ {
	}
	return n
}
