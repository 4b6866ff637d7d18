package kernel

// A tile of genericGemm is two rows of fmaRow, whose eight sums and products fit in
// sixteen floating-point registers, the smallest usual number.
var genericGemm = gemmTable{
	gemmBlocks:  gemmBlocks{rows: 2, cols: 4, lines: 2, kc: 256, nc: 256},
	panels:      gemmPanelsGeneric,
	packRows:    packRowsGeneric,
	packColumns: packColumnsGeneric,
}

func gemmPanelsGeneric(rows, n, k int, a []float32, _, _ int, b []float32, _, bPanel int, c []float32, ldc int, load bool, more []int) {
	for j := 0; j < n; j += 4 {
		panel := b[j/4*bPanel:]
		for i := range rows {
			row, sums := c[i*ldc+j:][:min(4, n-j)], [4]float32{}
			if load {
				copy(sums[:], row)
			}
			fmaRow(k, a[i:], 2, panel, 4, &sums)
			for run := more; len(run) > 0; run = run[runInts:] {
				fmaRow(run[runK], a[run[runFrom]+i:], 2, panel[4*run[runRow]:], 4, &sums)
			}
			copy(row, sums[:])
		}
	}
}
