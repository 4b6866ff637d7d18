package kernel

import (
	"fmt"
	"math"
	"testing"
)

// Rows of padding are never read, and every operand ends right before an inaccessible
// page, or begins right after one: with the bits that it has on the heap.
func TestAdditiveAttentionBesideGuardPages(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for _, s := range additiveShapes {
			c := newAdditiveCase(s)
			want := c.run(func(x []float32) []float32 { return append([]float32(nil), x...) })
			for i := s.Valid * s.Hidden; i < len(c.k); i++ {
				c.k[i] = float32(math.NaN())
			}
			for i := s.Valid * s.Values; i < len(c.v); i++ {
				c.v[i] = float32(math.Inf(1))
			}
			for _, atEnd := range []bool{true, false} {
				t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
					got := c.run(func(x []float32) []float32 { return besideGuard(t, x, atEnd) })
					sameBits(t, fmt.Sprintf("beside guard pages, at end: %t", atEnd), got, want)
				})
			}
		}
	})
}
