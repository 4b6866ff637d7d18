//go:build !purego

package kernel

var neon = implementation{"neon", neonGemm, neonVector, neonAttention}

// Every arm64 processor has NEON, as Arm calls Advanced SIMD.
func implementations() []*implementation { return []*implementation{&neon, &generic} }

var neonGemm = gemmTable{
	gemmBlocks:  gemmBlocks{rows: 6, cols: 16, lines: 16, kc: 256, nc: 512},
	strided:     true,
	panels:      gemmPanelsNEON,
	packRows:    packRowsNEON,
	packColumns: packColumnsNEON,
}

func packRowsNEON(width, count, k int, src []float32, stride int, dst []float32) {
	copyColumnsNEON(dst, src, k, count, width, stride)
	clearBeyond(width, count, k, dst)
}

func packColumnsNEON(width, count, k int, src []float32, stride int, dst []float32) {
	transposeNEON(dst, width, src, stride, count, k)
	clearBeyond(width, count, k, dst)
}

// clearBeyond clears the lines of a panel from count on.
func clearBeyond(width, count, k int, dst []float32) {
	if count < width {
		for p := range k {
			clear(dst[p*width+count : (p+1)*width])
		}
	}
}

// transposeNEON is attentionTable.transpose.
func transposeNEON(dst []float32, ld int, src []float32, stride, rows, cols int) {
	r, c := rows&^3, cols&^3
	if r > 0 && c > 0 {
		transposeFoursNEON(r, c, &src[0], stride, &dst[0], ld)
	}
	for i := range rows {
		first := c
		if i >= r {
			first = 0
		}
		for j := first; j < cols; j++ {
			dst[j*ld+i] = src[i*stride+j]
		}
	}
}

var neonAttention = attentionTable{
	mul:       attentionMulNEON,
	transpose: transposeNEON,
	gradRow:   attentionGradRowNEON,
}

// attentionMulNEON is attentionTable.mul: B in place is panels side by side.
func attentionMulNEON(m, n, k int, a []float32, ars, acs int, b []float32, brs int, c []float32, ldc int, accumulate bool) {
	rows := evenly(m, neonGemm.rows)
	for i := 0; i < m; i += rows {
		gemmPanelsNEON(min(rows, m-i), n, k, a[i*ars:], ars, acs, b, brs, neonGemm.cols, c[i*ldc:], ldc, accumulate, nil)
	}
}

// sumSquaresNEON goes over a tile that fits in the first-level cache twice, for half of the 64 lanes each.
func sumSquaresNEON(x []float32) float64 {
	const tile = 32 // blocks of wideTree elements
	var lanes [wideTree]float64
	for blocks := len(x) / wideTree; blocks > 0; blocks = len(x) / wideTree {
		n := min(blocks, tile)
		squaresNEON((*[wideTree / 2]float64)(lanes[:]), &x[0], n)
		squaresNEON((*[wideTree / 2]float64)(lanes[wideTree/2:]), &x[wideTree/2], n)
		x = x[wideTree*n:]
	}
	AddSquares(lanes[:], x)
	return Fold(lanes[:])
}

func widenNEON(dst []float32, src []uint16) {
	widenFoursNEON(dst, src)
	rest := len(dst) &^ 3
	widenGeneric(dst[rest:], src[rest:])
}

func narrowNEON(dst []uint16, src []float32) {
	narrowFoursNEON(dst, src)
	rest := len(dst) &^ 3
	narrowGeneric(dst[rest:], src[rest:])
}

func dropoutNEON(dst, x []float32, first int, threshold uint32, scale float32, k0, k1, c1, c2, c3 uint32) {
	from, to := wholeDropoutGroups(first, len(dst))
	dropoutGeneric(dst[:from], x, first, threshold, scale, k0, k1, c1, c2, c3)
	dropoutGroupsNEON(dst[from:to], x[from:], first+from, threshold, scale, k0, k1, c1, c2, c3)
	dropoutGeneric(dst[to:], x[to:], first+to, threshold, scale, k0, k1, c1, c2, c3)
}

func dropoutAddNEON(dst, x, add []float32, first int, threshold uint32, scale float32, k0, k1, c1, c2, c3 uint32) {
	from, to := wholeDropoutGroups(first, len(dst))
	dropoutAddGeneric(dst[:from], x, add, first, threshold, scale, k0, k1, c1, c2, c3)
	dropoutAddGroupsNEON(dst[from:to], x[from:], add[from:], first+from, threshold, scale, k0, k1, c1, c2, c3)
	dropoutAddGeneric(dst[to:], x[to:], add[to:], first+to, threshold, scale, k0, k1, c1, c2, c3)
}

// wholeDropoutGroups returns the part of n elements from first on that is whole groups of 64.
func wholeDropoutGroups(first, n int) (from, to int) {
	from = min(n, -first&63)
	return from, from + (n-from)&^63
}
