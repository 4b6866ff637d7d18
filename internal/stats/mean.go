package stats

import "slices"

// Median returns the median of xs: the mean of the middle two if their number
// is even, 0 if there are none.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	xs = slices.Sorted(slices.Values(xs))
	mid := len(xs) / 2
	if len(xs)%2 == 1 {
		return xs[mid]
	}
	return (xs[mid-1] + xs[mid]) / 2
}

// Ratio summarises the quotients of two runs' times, one per round.
type Ratio struct {
	Median, Lo, Hi float64
	Known          bool // whether there is an interval
}

// RatioOf summarises a/b by the median and the interval of order statistics
// that contains the true median with 95% confidence, whatever the distribution.
func RatioOf(a, b []float64) Ratio {
	var qs []float64
	for i := range a {
		qs = append(qs, a[i]/b[i])
	}
	r := Ratio{Median: Median(qs)}
	r.Lo, r.Hi, r.Known = Interval(qs, 0.95)
	return r
}

// Mean returns the mean of xs, 0 if there are none.
func Mean(xs []float64) (m float64) {
	for _, x := range xs {
		m += x / float64(len(xs))
	}
	return m
}
