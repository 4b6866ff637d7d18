package experiments

import (
	"fmt"
	"math"
	"slices"
)

// interval is the confidence interval of the median by order statistics, for
// any distribution: of n values in order, the median of what they are drawn
// from lies between the d-th smallest and the d-th largest with probability
// 1 - 2 P(X < d), X binomial with n trials at 1/2 (David and Nagaraja, Order
// Statistics, 3rd ed., section 7.1). d is the largest that keeps the
// probability at confidence or above; ok is false if there is none, for 95% if
// there are fewer than 6 values.
func interval(values []float64, confidence float64) (lo, hi float64, ok bool) {
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

// leastForInterval is how many values interval takes at least.
func leastForInterval(confidence float64) int {
	n := 1
	for ; 1-2*math.Pow(0.5, float64(n)) < confidence; n++ {
	}
	return n
}

// bracketed is the 95% interval of values in brackets, each written by format;
// "-" if they are too few.
func bracketed(values []float64, format func(float64) string) string {
	lo, hi, ok := interval(values, 0.95)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("[%s, %s]", format(lo), format(hi))
}

// fewRoundsNote warns of medians without an interval, if n rounds give none.
func fewRoundsNote(n int) []string {
	least := leastForInterval(0.95)
	if n >= least {
		return nil
	}
	return []string{fmt.Sprintf("Warning: n = %d rounds. A 95%% interval of order statistics takes %d, so medians stand here without one: how far another run would be from them is not known.", n, least)}
}
