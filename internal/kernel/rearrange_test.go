package kernel

import (
	"slices"
	"testing"
)

// counted returns the numbers from 0.
func counted(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	return x
}

// Sums, copies and transposes by their definitions, over all small sizes.
func TestRearranging(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for _, outer := range []int{1, 3} {
			for _, n := range []int{1, 2, 5, 19} {
				for _, inner := range []int{1, 2, 17} {
					x := counted(outer * n * inner)
					sums, copies := make([]float32, outer*inner), make([]float32, outer*n*inner)
					wantSums, wantCopies := make([]float32, len(sums)), make([]float32, len(copies))
					sums[0] = untouched
					for i, v := range x { // whole numbers: every order has the same sum
						wantSums[i/(n*inner)*inner+i%inner] += v
						wantCopies[i] = x[i/(n*inner)*inner+i%inner]
					}
					Sum(sums, x, outer, n, inner)
					Repeat(copies, x, outer, n, inner)
					if !slices.Equal(sums, wantSums) || !slices.Equal(copies, wantCopies) {
						t.Fatalf("(%d, %d, %d): sums %v, copies %v", outer, n, inner, sums, copies)
					}
					for _, mid := range []int{1, 3} {
						const b = 4
						x := counted(outer * n * mid * b * inner)
						y, want := make([]float32, len(x)), make([]float32, len(x))
						for i, v := range x {
							j := i % inner
							ib, im, ia, io := i/inner%b, i/inner/b%mid, i/inner/b/mid%n, i/inner/b/mid/n
							want[(((io*b+ib)*mid+im)*n+ia)*inner+j] = v
						}
						Transpose(y, x, outer, n, mid, b, inner)
						if !slices.Equal(y, want) {
							t.Fatalf("transposed (%d, %d, %d, %d, %d): %v, want %v", outer, n, mid, b, inner, y, want)
						}
					}
				}
			}
		}
	})
}
