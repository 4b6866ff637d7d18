package kernel

import (
	"fmt"
	"math"
	"testing"
)

// Every element is one chain of fused multiply-adds, to the bit, for every
// shape, and no element between rows is touched.
func TestAttentionMul(t *testing.T) {
	attentionProfiles(t, func(t *testing.T) {
		ks := []int{1, 2, 19}
		for _, m := range []int{1, 2, 3, 4, 5, 7, 8, 9, 15, 16} {
			for _, n := range []int{1, 5, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 64, 80} {
				for _, accumulate := range []bool{false, true} {
					for _, transposed := range []bool{false, true} {
						k := ks[(m+n)%len(ks)]
						ars, acs := k+2, 1
						if transposed {
							ars, acs = 1, m+3
						}
						brs, ldc := n+1, n+2
						a := rowsOf(attentionNormals(m*ars+k*acs, 1), 1, m*ars+k*acs, 0)
						b := rowsOf(attentionNormals(k*n, 2), k, n, brs)
						c := rowsOf(attentionNormals(m*n, 3), m, n, ldc)
						want := append([]float32{}, c...)
						contractAttention.mul(m, n, k, a, ars, acs, b, brs, want, ldc, accumulate)
						attention.mul(m, n, k, a, ars, acs, b, brs, c, ldc, accumulate)
						name := fmt.Sprintf("m=%d n=%d k=%d accumulate=%t transposed=%t", m, n, k, accumulate, transposed)
						for i := range want {
							if math.Float32bits(c[i]) != math.Float32bits(want[i]) {
								t.Fatalf("%s: c[%d] is %g, want %g", name, i, c[i], want[i])
							}
						}
					}
				}
			}
		}
	})
}

func TestAttentionTranspose(t *testing.T) {
	attentionProfiles(t, func(t *testing.T) {
		for _, rows := range []int{1, 3, 8, 15, 16, 17, 33} {
			for _, cols := range []int{1, 5, 8, 9, 16, 17, 32} {
				stride, ld := cols+3, roundUp16(rows)+16
				values := attentionNormals(rows*cols, 1)
				src := rowsOf(values, rows, cols, stride)
				dst := rowsOf(nil, 1, cols*ld, 0)
				attention.transpose(dst, ld, src, stride, rows, cols)
				for j := range cols {
					for i := range ld {
						want := float32(math.NaN())
						if i < rows {
							want = float32(values[i*cols+j])
						} else if i < roundUp16(rows) {
							continue
						}
						if math.Float32bits(dst[j*ld+i]) != math.Float32bits(want) {
							t.Fatalf("%d x %d: dst[%d][%d] is %g, want %g", rows, cols, j, i, dst[j*ld+i], want)
						}
					}
				}
			}
		}
	})
}
