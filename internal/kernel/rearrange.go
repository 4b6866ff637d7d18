package kernel

// Kernels that sum or move elements along one dimension of a tensor. The
// dimensions before and after it count together: x is (outer, n, inner).

// Sum sets dst, which is (outer, inner), to the sums of x (outer, n, inner) over
// n. If inner is 1 a sum is the tree of a row's reduction, else one chain of
// additions in ascending order that starts from 0.
func Sum(dst, x []float32, outer, n, inner int) {
	if inner == 1 {
		for i := range outer {
			dst[i] = RowSum(x[i*n : (i+1)*n])
		}
		return
	}
	clear(dst[:outer*inner])
	for i := range outer {
		vector.colSum(dst[i*inner:(i+1)*inner], x[i*n*inner:], n, inner, inner)
	}
}

// Repeat sets dst, which is (outer, n, inner), to n copies of each (inner) of x
// (outer, inner).
func Repeat(dst, x []float32, outer, n, inner int) {
	if inner == 1 {
		for i, v := range x[:outer] {
			row := dst[i*n : (i+1)*n]
			for j := range row {
				row[j] = v
			}
		}
		return
	}
	for i := range outer {
		row := x[i*inner : (i+1)*inner]
		for j := range n {
			copy(dst[(i*n+j)*inner:(i*n+j+1)*inner], row)
		}
	}
}

// Transpose sets dst, which is (outer, b, mid, a, inner), to x (outer, a, mid,
// b, inner) with the dimensions a and b exchanged.
func Transpose(dst, x []float32, outer, a, mid, b, inner int) {
	size := a * mid * b * inner
	for o := range outer {
		src, to := x[o*size:(o+1)*size], dst[o*size:(o+1)*size]
		at := 0
		for j := range b {
			for m := range mid {
				from, step := (m*b+j)*inner, mid*b*inner
				if inner == 1 {
					for i := range to[at : at+a] {
						to[at+i] = src[from+i*step]
					}
					at += a
					continue
				}
				for i := range a {
					copy(to[at:at+inner], src[from+i*step:])
					at += inner
				}
			}
		}
	}
}
