package kernel

// An attentionTable is one implementation of the kernels below attention.
type attentionTable struct {
	// mul computes C = A B, or C += A B, for C of m by n and A of m by k
	// elements, all positive: A(i,p) = a[i*ars+p*acs], B(p,j) = b[p*brs+j] and
	// C(i,j) = c[i*ldc+j]. Every element is one chain of fused multiply-adds
	// over ascending p.
	//
	// Unlike Gemm it packs nothing. With the 16 to 128 columns of a head,
	// packing A would take as long as multiplying, and all of A is in a near
	// cache anyway.
	mul func(m, n, k int, a []float32, ars, acs int, b []float32, brs int, c []float32, ldc int, accumulate bool)

	// transpose sets dst[j*ld+i] = src[i*stride+j] for i < rows and j < cols.
	// The rows of dst have space for a multiple of 16; the contents of the
	// excess are unspecified.
	transpose func(dst []float32, ld int, src []float32, stride, rows, cols int)

	// gradRow sets ds = scale p (ds - d). The length is a multiple of 16.
	gradRow func(ds, p []float32, d, scale float32)
}

var genericAttention = attentionTable{
	mul:       attentionMulGeneric,
	transpose: attentionTransposeGeneric,
	gradRow:   attentionGradRowGeneric,
}

func attentionMulGeneric(m, n, k int, a []float32, ars, acs int, b []float32, brs int, c []float32, ldc int, accumulate bool) {
	for i := range m {
		a, row := a[i*ars:], c[i*ldc:][:n]
		if !accumulate {
			clear(row)
		}
		j := 0
		for ; j+4 <= n; j += 4 {
			fmaRow(k, a, acs, b[j:], brs, (*[4]float32)(row[j:]))
		}
		for ; j < n; j++ {
			for p := range k {
				row[j] = fma32(a[p*acs], b[p*brs+j], row[j])
			}
		}
	}
}

func attentionTransposeGeneric(dst []float32, ld int, src []float32, stride, rows, cols int) {
	for i := range rows {
		for j, x := range src[i*stride:][:cols] {
			dst[j*ld+i] = x
		}
	}
}

func attentionGradRowGeneric(ds, p []float32, d, scale float32) {
	for j, x := range p {
		ds[j] = x * (ds[j] - d) * scale
	}
}
