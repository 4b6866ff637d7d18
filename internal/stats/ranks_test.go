package stats

import (
	"testing"

	"gpipebench/internal/testkit"
)

// Rank correlations that can be had by hand, 1 - 6 sum(d^2) / (n (n^2 - 1)) without ties.
func TestRankCorrelation(t *testing.T) {
	for _, c := range []struct {
		xs, ys []float64
		want   float64
	}{
		{[]float64{1, 2, 30}, []float64{5, 6, 7}, 1},
		{[]float64{1, 2, 30}, []float64{7, 6, 5}, -1},
		{[]float64{1, 2, 3, 4}, []float64{2, 1, 4, 3}, 1 - 6*4./60},
		{[]float64{1, 1, 2}, []float64{1, 2, 3}, 0.8660254037844387},       // ranks 1.5, 1.5, 3
		{[]float64{1, 1, 2, 3}, []float64{1, 2, 3, 4}, 0.9486832980505138}, // ranks 1.5, 1.5, 3, 4: 4.5 / sqrt(4.5 * 5)
		{[]float64{4, 4, 4}, []float64{1, 2, 3}, 0},
		{[]float64{1, 2, 3}, []float64{4, 4, 4}, 0},
	} {
		testkit.Near(t, RankCorrelation(c.xs, c.ys), c.want, 1e-12, "%v, %v", c.xs, c.ys)
	}
}
