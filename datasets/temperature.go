package datasets

import (
	"cmp"
	"slices"

	"gpipebench/internal/kernel/exactmath"
)

// quotas divides total examples among languages with n_l pairs each, in
// proportion to n_l^(1/temperature) (the exponentially smoothed weighting of
// multilingual BERT,
// https://github.com/google-research/bert/blob/master/multilingual.md, where
// 1/temperature is 0.7): at temperature 1 by size, at infinity equally. Shares
// are rounded down, and the rest goes to the largest remainders, the first of
// equal ones. Every language gets at least one.
func quotas(pairs []int, temperature float64, total int) []int {
	weights := make([]float64, len(pairs))
	sum := 0.0
	for l, n := range pairs {
		weights[l] = exactmath.Pow(float64(n), 1/temperature)
		sum += weights[l]
	}
	out := make([]int, len(pairs))
	order := make([]int, len(pairs))
	left := total
	for l := range pairs {
		weights[l] = float64(weights[l] * (float64(total) / sum))
		out[l] = max(int(weights[l]), 1)
		weights[l] -= float64(out[l])
		left -= out[l]
		order[l] = l
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	for i := 0; left > 0; i, left = i+1, left-1 {
		out[order[i%len(order)]]++
	}
	return out
}
