//go:build !purego

package kernel

//go:generate go run -C asm ./attention -out ../attention_amd64.s -stubs ../attention_stubs_amd64.go -pkg kernel

var avx512Attention = attentionTable{
	mul: func(m, n, k int, a []float32, ars, acs int, b []float32, brs int, c []float32, ldc int, accumulate bool) {
		i := 0
		for ; i+8 <= m; i += 8 {
			attentionMul8AVX512(n, k, &a[i*ars], ars, acs, &b[0], brs, &c[i*ldc], ldc, accumulate)
		}
		if i+4 <= m {
			attentionMul4AVX512(n, k, &a[i*ars], ars, acs, &b[0], brs, &c[i*ldc], ldc, accumulate)
			i += 4
		}
		if i+2 <= m {
			attentionMul2AVX512(n, k, &a[i*ars], ars, acs, &b[0], brs, &c[i*ldc], ldc, accumulate)
			i += 2
		}
		if i < m {
			attentionMul1AVX512(n, k, &a[i*ars], ars, acs, &b[0], brs, &c[i*ldc], ldc, accumulate)
		}
	},
	transpose: func(dst []float32, ld int, src []float32, stride, rows, cols int) {
		attentionTransposeAVX512(rows, cols, &src[0], stride, &dst[0], ld)
	},
	gradRow: func(ds, p []float32, d, scale float32) {
		attentionGradRowAVX512(len(ds), &ds[0], &p[0], d, scale)
	},
}

var avx2Attention = attentionTable{
	mul: func(m, n, k int, a []float32, ars, acs int, b []float32, brs int, c []float32, ldc int, accumulate bool) {
		i := 0
		for ; i+4 <= m; i += 4 {
			attentionMul4AVX2(n, k, &a[i*ars], ars, acs, &b[0], brs, &c[i*ldc], ldc, accumulate)
		}
		if i+2 <= m {
			attentionMul2AVX2(n, k, &a[i*ars], ars, acs, &b[0], brs, &c[i*ldc], ldc, accumulate)
			i += 2
		}
		if i < m {
			attentionMul1AVX2(n, k, &a[i*ars], ars, acs, &b[0], brs, &c[i*ldc], ldc, accumulate)
		}
	},
	transpose: func(dst []float32, ld int, src []float32, stride, rows, cols int) {
		attentionTransposeAVX2(rows, cols, &src[0], stride, &dst[0], ld)
	},
	gradRow: func(ds, p []float32, d, scale float32) {
		attentionGradRowAVX2(len(ds), &ds[0], &p[0], d, scale)
	},
}
