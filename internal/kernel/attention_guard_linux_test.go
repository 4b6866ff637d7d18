package kernel

import "testing"

// besideGuard returns a copy of x that ends right before an inaccessible page,
// or begins right after one.
func besideGuard(t *testing.T, x []float32, atEnd bool) []float32 {
	t.Helper()
	y := float32s(guardedMemory(t, 4*len(x)))
	if atEnd {
		y = y[len(y)-len(x):]
	}
	copy(y, x)
	return y[:len(x)]
}

// Nothing outside the rows is touched, not even by a vector's dead lanes.
func TestAttentionGuardPages(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		for _, s := range attentionShapes() {
			if s.Queries == 128 || s.Keys == 128 {
				continue // like 64
			}
			for _, atEnd := range []bool{true, false} {
				c := newAttentionCase(s)
				c.run()
				want := c.results(t)
				if s.Valid < s.Keys && s.Valid > 0 {
					// Rows of padding are never read.
					c.k = c.k[:(s.Valid-1)*s.KStride+s.HeadDim]
					c.v = c.v[:(s.Valid-1)*s.VStride+s.HeadDim]
				}
				t.Run(s.String(), func(t *testing.T) {
					for _, x := range []*[]float32{&c.q, &c.k, &c.v, &c.do, &c.o, &c.lse, &c.dq, &c.dk, &c.dv, &c.scratch, &c.gradSc} {
						*x = besideGuard(t, *x, atEnd)
					}
					c.run()
					sameResults(t, s, c.results(t), want)
				})
			}
		}
	})
}
