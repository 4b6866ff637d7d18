package kernel

// Embed sets row r of dst, which is (len(ids), dim), to
//
//	table[ids[r]] * scale + add[r % period]
//
// by fused multiply-adds. table is (vocabulary, dim). add, (period, dim), has
// the position embeddings and may be nil.
func Embed(dst, table []float32, ids []int32, dim int, scale float32, add []float32, period int) {
	for r, id := range ids {
		out, row := dst[r*dim:(r+1)*dim], table[int(id)*dim:(int(id)+1)*dim]
		if add == nil {
			Scale(out, row, scale)
			continue
		}
		p := r % period
		vector.addScaled(out, add[p*dim:(p+1)*dim], row, scale)
	}
}

// EmbedGrad adds scale * dy[r] to row ids[r] of dtable, rows ascending, by
// fused multiply-adds, only in the columns from to to-1: threads may cut the
// columns, never the rows. dy is (len(ids), dim).
func EmbedGrad(dtable, dy []float32, ids []int32, dim, from, to int, scale float32) {
	for r, id := range ids {
		sum := dtable[int(id)*dim+from : int(id)*dim+to]
		vector.addScaled(sum, sum, dy[r*dim+from:r*dim+to], scale)
	}
}
