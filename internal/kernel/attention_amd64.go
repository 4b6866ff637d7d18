//go:build !purego

package kernel

//go:generate go run -C asm ./attention -out ../attention_amd64.s -stubs ../attention_stubs_amd64.go -pkg kernel

var avx512Attention = attentionTable{
	mul: mulBy(attentionMul1AVX512, attentionMul2AVX512, attentionMul4AVX512, attentionMul8AVX512),
	transpose: func(dst []float32, ld int, src []float32, stride, rows, cols int) {
		attentionTransposeAVX512(rows, cols, &src[0], stride, &dst[0], ld)
	},
	gradRow: func(ds, p []float32, d, scale float32) {
		attentionGradRowAVX512(len(ds), &ds[0], &p[0], d, scale)
	},
}

var avx2Attention = attentionTable{
	mul: mulBy(attentionMul1AVX2, attentionMul2AVX2, attentionMul4AVX2),
	transpose: func(dst []float32, ld int, src []float32, stride, rows, cols int) {
		attentionTransposeAVX2(rows, cols, &src[0], stride, &dst[0], ld)
	},
	gradRow: func(ds, p []float32, d, scale float32) {
		attentionGradRowAVX2(len(ds), &ds[0], &p[0], d, scale)
	},
}

// mulBy is attentionTable.mul by kernels for 1, 2, 4 and so on rows.
func mulBy(kernels ...func(n, k int, a *float32, ars, acs int, b *float32, brs int, c *float32, ldc int, accumulate bool)) func(m, n, k int, a []float32, ars, acs int, b []float32, brs int, c []float32, ldc int, accumulate bool) {
	return func(m, n, k int, a []float32, ars, acs int, b []float32, brs int, c []float32, ldc int, accumulate bool) {
		for i, size := 0, len(kernels)-1; i < m; i += 1 << size {
			for 1<<size > m-i {
				size--
			}
			kernels[size](n, k, &a[i*ars], ars, acs, &b[0], brs, &c[i*ldc], ldc, accumulate)
		}
	}
}
