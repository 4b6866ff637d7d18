package stats

import (
	"slices"

	"gonum.org/v1/gonum/stat"
)

// RankCorrelation is Spearman's: Pearson's correlation of the ranks of as many values, -1 to 1. Equal
// values share the mean of their ranks. It is 0 if all xs or all ys are equal.
func RankCorrelation(xs, ys []float64) float64 {
	if slices.Min(xs) == slices.Max(xs) || slices.Min(ys) == slices.Max(ys) {
		return 0
	}
	return stat.Correlation(ranks(xs), ranks(ys), nil)
}

// ranks are 1 for the least value, and so on.
func ranks(xs []float64) (all []float64) {
	for _, x := range xs {
		less, same := 0, 0
		for _, y := range xs {
			switch {
			case y < x:
				less++
			case y == x:
				same++
			}
		}
		all = append(all, float64(less)+float64(float64(same+1)/2))
	}
	return all
}
