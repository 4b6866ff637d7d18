package datasets

import (
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

func TestQuotasByHand(t *testing.T) {
	for _, c := range []struct {
		pairs       []int
		temperature float64
		total       int
		want        []int
	}{
		{[]int{7, 2, 1}, 1, 10, []int{7, 2, 1}},
		{[]int{7}, 5, 7, []int{7}},
		// Square roots 4, 2, 1 of 21: 12, 6, 3.
		{[]int{16, 4, 1}, 2, 21, []int{12, 6, 3}},
		// Equal shares, and the one left over of 22 goes to the first.
		{[]int{16, 4, 1}, math.Inf(1), 21, []int{7, 7, 7}},
		{[]int{16, 4, 2}, math.Inf(1), 22, []int{8, 7, 7}},
		// 4/7, 2/7, 1/7 of 20 are 11.43, 5.71, 2.86: two are left over, for the
		// largest remainders.
		{[]int{16, 4, 1}, 2, 20, []int{11, 6, 3}},
		{[]int{1000000, 1}, 1, 10, []int{9, 1}},
	} {
		got := quotas(c.pairs, c.temperature, c.total)
		testkit.EqualAll(t, got, c.want, "%v at temperature %v of %d", c.pairs, c.temperature, c.total)
	}
}

func TestQuotasAddUp(t *testing.T) {
	for _, pairs := range [][]int{{1}, {1, 1, 1}, {20000, 5000, 2222, 1250, 800, 556}, {3, 1, 4, 1, 5, 9, 2, 6}, {1 << 20, 1}} {
		total := 0
		for _, n := range pairs {
			total += n
		}
		last := math.Inf(1)
		for _, temperature := range []float64{1, 1.1, 1 / 0.7, 2, 5, 100, math.Inf(1)} {
			got := quotas(pairs, temperature, total)
			sum := 0
			for _, q := range got {
				sum += q
			}
			if sum != total || slices.Min(got) < 1 {
				t.Errorf("%v at %v: %v adds up to %d, want %d", pairs, temperature, got, sum, total)
			}
			if temperature == 1 && !slices.Equal(got, pairs) {
				t.Errorf("%v at 1: %v", pairs, got)
			}
			if spread := float64(slices.Max(got)) / float64(slices.Min(got)); spread > last+1e-9 && temperature < 50 {
				t.Errorf("%v at %v: %v is less even than at a lower temperature", pairs, temperature, got)
			} else {
				last = spread
			}
		}
	}
	testkit.EqualAll(t, quotas([]int{20000, 5000, 2222, 1250, 800, 556}, 1/0.7, 29828), []int{15505, 5875, 3330, 2226, 1629, 1263}, "the default task's languages")
}
