package kernel

// genericGemm multiplies and adds with a rounding each. Its tile fits in
// sixteen floating-point registers, the smallest usual number.
var genericGemm = gemmTable{
	profile: "generic",
	rows:    2, cols: 4, lines: 2,
	kc: 256, nc: 256,
	panels:      gemmPanelsGeneric,
	packRows:    packRowsGeneric,
	packColumns: packColumnsGeneric,
}

func gemmPanelsGeneric(rows, n, k int, a []float32, _, _ int, b []float32, _, bPanel int, c []float32, ldc int, load bool, more []int) {
	for j := 0; j < n; j += 4 {
		var tile [2][4]float32
		cols := min(4, n-j)
		if load {
			for i := range rows {
				copy(tile[i][:cols], c[i*ldc+j:])
			}
		}
		panel := b[j/4*bPanel:]
		gemmTileGeneric(k, a, panel, &tile)
		for run := more; len(run) > 0; run = run[runInts:] {
			gemmTileGeneric(run[runK], a[run[runFrom]:], panel[4*run[runRow]:], &tile)
		}
		for i := range rows {
			copy(c[i*ldc+j:], tile[i][:cols])
		}
	}
}

// gemmTileGeneric adds the products of packed panels. The conversions keep the
// compiler from fusing, which it would do only on some processors.
func gemmTileGeneric(k int, a, b []float32, c *[2][4]float32) {
	c00, c01, c02, c03 := c[0][0], c[0][1], c[0][2], c[0][3]
	c10, c11, c12, c13 := c[1][0], c[1][1], c[1][2], c[1][3]
	for p := range k {
		x, y := (*[2]float32)(a[2*p:]), (*[4]float32)(b[4*p:])
		y0, y1, y2, y3 := y[0], y[1], y[2], y[3]
		c00 += float32(x[0] * y0)
		c01 += float32(x[0] * y1)
		c02 += float32(x[0] * y2)
		c03 += float32(x[0] * y3)
		c10 += float32(x[1] * y0)
		c11 += float32(x[1] * y1)
		c12 += float32(x[1] * y2)
		c13 += float32(x[1] * y3)
	}
	*c = [2][4]float32{{c00, c01, c02, c03}, {c10, c11, c12, c13}}
}
