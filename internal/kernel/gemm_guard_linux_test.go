package kernel

import "testing"

// Nothing outside the operands is touched, not even by a vector's dead lanes.
func TestGemmBesideGuardPages(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for i, s := range gemmShapes() {
			if i%3 != 0 || s.m*s.n*s.k > 1<<20 {
				continue // mapping is slow
			}
			c := newGemmCase(s)
			c.run()
			want := c.c
			for _, atEnd := range []bool{false, true} {
				c = newGemmCase(s)
				for _, x := range []*[]float32{&c.a, &c.b, &c.c, &c.scratch} {
					*x = besideGuard(t, *x, atEnd)
				}
				c.run()
				c.same(t, want)
			}
		}
	})
}
