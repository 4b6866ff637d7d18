package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Rows of padding are never read, and every operand ends right before an inaccessible
// page, or begins right after one: with the bits that it has on the heap.
func TestAdditiveAttentionBesideGuardPages(t *testing.T) {
	lstmProfiles(t, func(t *testing.T) {
		for _, s := range []AdditiveShape{{1, 1, 1, 1, 1}, {3, 4, 5, 2, 4}, {3, 4, 5, 2, 2}, {2, 3, 16, 17, 0}, {7, 33, 35, 41, 20}} {
			r := rand.New(rand.NewPCG(1, 2))
			fill := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(r.NormFloat64())
				}
				return x
			}
			q, k, u, v := fill(s.Queries*s.Hidden), fill(s.Keys*s.Hidden), fill(s.Hidden), fill(s.Keys*s.Values)
			do, o, p := fill(s.Queries*s.Values), fill(s.Queries*s.Values), fill(s.Queries*s.Keys)
			dq, dk, du, dv := fill(len(q)), fill(len(k)), fill(len(u)), fill(len(v))
			scratch, gradScratch := fill(s.Scratch()), fill(s.GradScratch())
			clear(k[s.Valid*s.Hidden:])
			clear(v[s.Valid*s.Values:])
			run := func(place func(x []float32) []float32) [][]float32 {
				q, k, u, v, do, o, p := place(q), place(k), place(u), place(v), place(do), place(o), place(p)
				dq, dk, du, dv, scratch, gradScratch := place(dq), place(dk), place(du), place(dv), place(scratch), place(gradScratch)
				AdditiveAttention(s, o, p, q, k, u, v, scratch)
				AdditiveAttentionGrad(s, dq, dk, du, dv, do, p, q, k, u, v, gradScratch)
				return [][]float32{o, p, dq, dk, du, dv}
			}
			want := run(func(x []float32) []float32 { return append([]float32(nil), x...) })
			for i := s.Valid * s.Hidden; i < len(k); i++ {
				k[i] = float32(math.NaN())
			}
			for i := s.Valid * s.Values; i < len(v); i++ {
				v[i] = float32(math.Inf(1))
			}
			for _, atEnd := range []bool{true, false} {
				t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
					got := run(func(x []float32) []float32 { return besideGuard(t, x, atEnd) })
					for i := range want {
						for j := range want[i] {
							if math.Float32bits(got[i][j]) != math.Float32bits(want[i][j]) {
								t.Fatalf("result %d, element %d is %v, want %v", i, j, got[i][j], want[i][j])
							}
						}
					}
				})
			}
		}
	})
}
