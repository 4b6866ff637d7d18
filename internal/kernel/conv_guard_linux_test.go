package kernel

import (
	"fmt"
	"testing"
)

// Nothing outside the operands is touched, not even by a vector's dead lanes.
func TestConvBesideGuardPages(t *testing.T) {
	eachGemm(t, func(t *testing.T) {
		for i, shape := range convShapes() {
			if i%3 != 0 {
				continue // mapping is slow
			}
			for _, c := range convCases(shape) {
				for parts := 1; parts <= 2; parts++ {
					want := c.run(parts)
					for _, atEnd := range []bool{false, true} {
						g := *c
						for _, x := range []*[]float32{&g.out, &g.l, &g.r} {
							*x = besideGuard(t, *x, atEnd)
						}
						scratch := besideGuard(t, make([]float32, g.scratch(parts)), atEnd)
						for part := range parts {
							g.part(g.out, part, parts, scratch)
						}
						c.same(t, fmt.Sprintf("%d parts beside guard pages", parts), g.out, want)
					}
				}
			}
		}
	})
}
