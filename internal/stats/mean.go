package stats

import "slices"

// Median is the median of xs; of an even number the mean of the middle two, of none 0.
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

// Ratio is a quotient of two runs' times, taken round by round.
type Ratio struct {
	Median, Lo, Hi float64
	Known          bool // that there is an interval: fewRoundsNote says if not
}

// RatioOf summarises a/b by the median and the interval of order statistics
// that holds the true median with 95% confidence, whatever the distribution.
func RatioOf(a, b []float64) Ratio {
	var qs []float64
	for i := range a {
		qs = append(qs, a[i]/b[i])
	}
	r := Ratio{Median: Median(qs)}
	r.Lo, r.Hi, r.Known = Interval(qs, 0.95)
	return r
}

func Mean(xs []float64) (m float64) {
	for _, x := range xs {
		m += x / float64(len(xs))
	}
	return m
}
