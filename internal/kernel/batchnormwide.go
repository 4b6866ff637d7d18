package kernel

import "math"

// Batch norm whose statistics cover several replicas' micro-batches together.
// Forward it is
//
//	BatchNormMoments, BatchNormTally, CombineTallies over the replicas, BatchNormWideStats, BatchNorm
//
// and backward
//
//	BatchNormGradSums, BatchNormGradTotals, Add over the replicas, BatchNormWideTotals, BatchNormGrad

// BatchNormTally sets own to the tally (3, cols) of one micro-batch of rows rows, from
// its chunks' moments (see BatchNormStats), and merges it into tally, unless that is nil,
// for the columns [col0, col1).
func BatchNormTally(own, tally []float64, moments []float32, rows, cols, col0, col1 int) {
	for j := col0; j < col1; j++ {
		own[j] = float64(rows)
		own[cols+j], own[2*cols+j] = combinedMoments(moments[j:], rows, cols)
	}
	if tally != nil {
		combineColumns(tally, own, cols, col0, col1)
	}
}

// combinedMoments returns the mean and the sum of squared deviations of a column.
func combinedMoments(moments []float32, rows, ld int) (mean, squares float64) {
	for chunk := range NormChunks(rows) {
		_, n := chunkRows(chunk, rows)
		mean += float64(float64(n) * float64(moments[2*chunk*ld]))
	}
	mean /= float64(rows)
	for chunk := range NormChunks(rows) {
		_, n := chunkRows(chunk, rows)
		d := float64(moments[2*chunk*ld]) - mean
		squares += float64(moments[(2*chunk+1)*ld]) + float64(float64(n)*d*d)
	}
	return mean, squares
}

// CombineTallies adds the tally b to the tally a, both of the same channels: the
// statistics of both sets of values together (Chan, Golub and LeVeque 1979).
func CombineTallies(a, b []float64) {
	cols := len(a) / 3
	combineColumns(a, b, cols, 0, cols)
}

func combineColumns(a, b []float64, cols, col0, col1 int) {
	for j := col0; j < col1; j++ {
		na, nb := a[j], b[j]
		if nb == 0 {
			continue
		}
		n := na + nb
		delta := b[cols+j] - a[cols+j]
		a[j] = n
		a[cols+j] += float64(delta * float64(nb/n))
		a[2*cols+j] += b[2*cols+j] + float64(float64(delta*delta)*float64(float64(na*nb)/n))
	}
}

// BatchNormWideStats sets stats (3, cols), for the columns [col0, col1), from the tally
// (3, cols) of all replicas: the mean and 1/√(var + eps) with the biased variance, as
// BatchNormStats does, and this replica's share, rows, of all rows.
func BatchNormWideStats(stats []float32, all []float64, rows, cols int, eps float32, col0, col1 int) {
	for j := col0; j < col1; j++ {
		stats[j] = float32(all[cols+j])
		stats[cols+j] = inverseDeviation(all[2*cols+j]/all[j], eps)
		stats[2*cols+j] = float32(float64(rows) / all[j])
	}
}

func inverseDeviation(variance float64, eps float32) float32 {
	return float32(1 / math.Sqrt(variance+float64(eps)))
}

// BatchNormWideTotals sets totals (2, cols), for the columns [col0, col1), to the sums
// over all replicas times this replica's share of the rows, from BatchNormWideStats.
// BatchNormGrad divides that by the number of this replica's rows, so that it gets the
// means over the rows of all.
func BatchNormWideTotals(totals, all, stats []float32, cols, col0, col1 int) {
	share := stats[2*cols+col0 : 2*cols+col1]
	Mul(totals[col0:col1], all[col0:col1], share)
	Mul(totals[cols+col0:cols+col1], all[cols+col0:cols+col1], share)
}
