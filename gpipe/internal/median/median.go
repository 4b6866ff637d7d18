// Package median computes the median of measured times.
package median

import "slices"

// Of is the median of xs: for an even number the mean of the middle two, for none 0.
func Of(xs []float64) float64 {
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
