package datasets

import (
	"math"
	"slices"
	"testing"

	"gpipebench/nn/philox"
)

func TestShuffleIsAnOrder(t *testing.T) {
	key := philox.KeyOf(1, "shuffle")
	for _, n := range []int{1, 2, 3, 4, 5, 15, 16, 17, 100, 1023, 1024, 1025, 5000} {
		s := newShuffle(n, key, 9)
		seen := make([]bool, n)
		for i := range n {
			x := s.at(i)
			if x < 0 || x >= n || seen[x] {
				t.Fatalf("n %d: place %d holds %d, out of range or a second time", n, i, x)
			}
			seen[x] = true
		}
	}
	if x := newShuffle(math.MaxInt32, key, 9).at(math.MaxInt32 - 1); x < 0 || x >= math.MaxInt32 {
		t.Errorf("largest shuffle holds %d", x)
	}
}

func TestShufflesDiffer(t *testing.T) {
	order := func(seed, tweak uint64) []int {
		s := newShuffle(50, philox.KeyOf(seed, "shuffle"), tweak)
		out := make([]int, 50)
		for i := range out {
			out[i] = s.at(i)
		}
		return out
	}
	want := order(1, 0)
	if !slices.Equal(order(1, 0), want) {
		t.Error("the same order differs")
	}
	for name, other := range map[string][]int{"seed": order(2, 0), "tweak": order(1, 1), "high tweak": order(1, 1<<32)} {
		if slices.Equal(other, want) {
			t.Errorf("another %s gives the same order", name)
		}
	}
}

// Over many orders, every number is at every position about equally often, even
// for so few numbers that a weak network would show.
func TestShuffleIsEven(t *testing.T) {
	for _, n := range []int{3, 4, 6, 17} {
		const orders = 4000
		times := make([]float64, n*n)
		for o := range uint64(orders) {
			s := newShuffle(n, philox.KeyOf(5, "shuffle"), o)
			for i := range n {
				times[i*n+s.at(i)]++
			}
		}
		chi := 0.0
		want := float64(orders) / float64(n)
		for _, k := range times {
			chi += (k - want) * (k - want) / want
		}
		freedom := float64((n - 1) * (n - 1))
		if limit := freedom + 4*math.Sqrt(2*freedom); chi > limit {
			t.Errorf("n %d: chi-square %.1f, want below %.1f", n, chi, limit)
		}
	}
}
