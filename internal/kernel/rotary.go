package kernel

// Rotary rotates pairs of elements of x, which is (rows, cols), by angles of the rows' positions
// (Su et al.: RoFormer, arXiv 2104.09864, section 3.4.2). A row is heads of headDim, side by side;
// element j of the first half of a head and element j of its second half are a pair:
//
//	y_j = x_j cos - x_j' sin,  y_j' = x_j' cos + x_j sin
//
// Row r is at position (first+r) % period, whose row of table, (period, headDim), has the cosines
// of the pairs' angles and then their sines. sign is 1, or -1 to rotate back. y may be x.
func Rotary(y, x, table []float32, rows, cols, headDim, first, period int, sign float32) {
	half := headDim / 2
	for r := range rows {
		angles := table[(first+r)%period*headDim:][:headDim]
		cosines, sines := angles[:half], angles[half:]
		for at := r * cols; at < (r+1)*cols; at += headDim {
			x0, x1 := x[at:][:half], x[at+half:][:half]
			y0, y1 := y[at:][:half], y[at+half:][:half]
			for j, cosine := range cosines {
				sine, a, b := sign*sines[j], x0[j], x1[j]
				y0[j] = float32(a*cosine) - float32(b*sine)
				y1[j] = float32(b*cosine) + float32(a*sine)
			}
		}
	}
}
