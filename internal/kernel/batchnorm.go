package kernel

// Batch norm (Ioffe and Szegedy: Batch Normalization, arXiv 1502.03167,
// algorithm 1 and section 3) over the rows of x, which is (rows, cols): an image
// batch (N, H, W, C) has N*H*W rows and C columns. A micro-batch goes through
//
//	BatchNormMoments, BatchNormStats, BatchNorm
//
// and backwards through BatchNormGradSums, BatchNormGradTotals, BatchNormGrad.
// Each step needs the complete result of the one before it; within a step
// threads may share chunks, columns or rows as the step's comment says.

// NormChunk is the number of rows that are reduced together; the last chunk of
// a micro-batch may be shorter. Within a chunk a column is one chain over the
// rows in ascending order, and the chunks are one chain too, so the bits of a
// statistic depend only on the column's values.
const NormChunk = 128

// NormChunks returns the number of chunks of a micro-batch.
func NormChunks(rows int) int { return (rows + NormChunk - 1) / NormChunk }

// chunkRows returns the first row and the number of rows of a chunk.
func chunkRows(chunk, rows int) (first, n int) {
	first = chunk * NormChunk
	return first, min(NormChunk, rows-first)
}

// BatchNormMoments sets the mean, and the sum of squared deviations from it, of
// each chunk in [chunk0, chunk1), for the columns [col0, col1). moments is
// (chunks, 2, cols), x is (rows, cols).
func BatchNormMoments(moments, x []float32, rows, cols, chunk0, chunk1, col0, col1 int) {
	for chunk := chunk0; chunk < chunk1; chunk++ {
		first, n := chunkRows(chunk, rows)
		m := moments[2*chunk*cols:]
		vector.columnMoments(m[col0:col1], m[cols+col0:cols+col1], x[first*cols+col0:], n, col1-col0, cols)
	}
}

// BatchNormStats combines the chunks' moments in ascending order in float64,
// for the columns [col0, col1): the mean of the chunks' means weighted by their
// rows, and the sum of squared deviations within the chunks and between them.
// It sets stats (2, cols) to the mean and 1/√(var + eps) with the biased
// variance.
//
// tally may be nil. It is (3, cols): count, mean and sum of squared deviations
// of each column over all micro-batches merged so far, initially zeros, into
// which this micro-batch is merged (Chan, Golub and LeVeque: Updating Formulae
// and a Pairwise Algorithm for Computing Sample Variances, 1979, equation 2.1).
// Every column has its own count, so that calls for different columns share
// nothing.
func BatchNormStats(stats, moments []float32, tally []float64, rows, cols int, eps float32, col0, col1 int) {
	mean, scale, moments := stats[col0:col1], stats[cols+col0:cols+col1], moments[col0:]
	if tally == nil {
		vector.normStats(mean, scale, moments, rows, col1-col0, cols, eps)
		return
	}
	vector.normStatsTally(tally[col0:col1], tally[cols+col0:cols+col1], tally[2*cols+col0:2*cols+col1],
		mean, scale, moments, rows, col1-col0, cols, eps)
}

// MoveStatistics moves the averages of mean and variance, both (cols), by a
// mini-batch's tally (see BatchNormStats):
//
//	average = momentum * average + (1 - momentum) * value
//
// in float64. The variance is the sum of squared deviations divided by the
// count, or, if unbiased, by the count less one. A column without values keeps
// its averages.
func MoveStatistics(mean, variance []float32, tally []float64, momentum float64, unbiased bool) {
	cols := len(mean)
	move := func(average *float32, value float64) {
		*average = float32(float64(momentum*float64(*average)) + float64((1-momentum)*value))
	}
	for j := range cols {
		n := tally[j]
		if n == 0 {
			continue
		}
		move(&mean[j], tally[cols+j])
		if unbiased {
			n--
		}
		move(&variance[j], tally[2*cols+j]/n)
	}
}

// BatchNorm normalises each column of x by its statistics:
//
//	y = (x - mean) / √(var + eps) * gamma + beta [+ add]
//
// followed by Relu if relu. x and y are rows of cols columns, any rows of the
// micro-batch; stats is (2, cols) from BatchNormStats, gamma and beta are
// (cols). add may be nil or has x's shape. y may be x or add.
//
// With both add and relu, the gradient is ReluGrad (of y), then
// BatchNormGradSums and BatchNormGrad without relu.
func BatchNorm(y, x, add, stats, gamma, beta []float32, rows, cols int, relu bool) {
	mean, scale := stats[:cols], stats[cols:2*cols]
	switch {
	case add == nil && relu:
		vector.batchNormRelu(y, x, mean, scale, gamma, beta, rows, cols)
	case add == nil:
		vector.batchNorm(y, x, mean, scale, gamma, beta, rows, cols)
	case relu:
		vector.batchNormAddRelu(y, x, add, mean, scale, gamma, beta, rows, cols)
	default:
		vector.batchNormAdd(y, x, add, mean, scale, gamma, beta, rows, cols)
	}
}

// BatchNormEval is BatchNorm for evaluation, with a given mean and variance,
// both (cols), instead of the micro-batch's.
func BatchNormEval(y, x, add, mean, variance, gamma, beta []float32, rows, cols int, eps float32, relu bool) {
	switch {
	case add == nil && relu:
		vector.batchNormEvalRelu(y, x, mean, variance, gamma, beta, rows, cols, eps)
	case add == nil:
		vector.batchNormEval(y, x, mean, variance, gamma, beta, rows, cols, eps)
	case relu:
		vector.batchNormEvalAddRelu(y, x, add, mean, variance, gamma, beta, rows, cols, eps)
	default:
		vector.batchNormEvalAdd(y, x, add, mean, variance, gamma, beta, rows, cols, eps)
	}
}

// BatchNormGradSums sets the sums of dz and of dz times the normalised x of
// each chunk in [chunk0, chunk1), for the columns [col0, col1). sums is
// (chunks, 2, cols); dy and x are (rows, cols). Without relu dz is dy; with
// relu it is dy where BatchNorm's output (without add) is positive, else 0. The
// output is computed again from x with the same bits.
func BatchNormGradSums(sums, dy, x, stats, gamma, beta []float32, relu bool, rows, cols, chunk0, chunk1, col0, col1 int) {
	mean, scale := stats[col0:col1], stats[cols+col0:cols+col1]
	gamma, beta = gamma[col0:col1], beta[col0:col1]
	for chunk := chunk0; chunk < chunk1; chunk++ {
		first, n := chunkRows(chunk, rows)
		s := sums[2*chunk*cols:]
		sum, sumX := s[col0:col1], s[cols+col0:cols+col1]
		dy, x := dy[first*cols+col0:], x[first*cols+col0:]
		if relu {
			vector.batchNormReluGradSums(sum, sumX, dy, x, mean, scale, gamma, beta, n, col1-col0, cols)
		} else {
			vector.batchNormGradSums(sum, sumX, dy, x, mean, scale, n, col1-col0, cols)
		}
	}
}

// BatchNormGradTotals adds the chunks' sums in ascending order in float64, for
// the columns [col0, col1). totals is (2, cols): the gradients of beta and of
// gamma.
func BatchNormGradTotals(totals, sums []float32, rows, cols, col0, col1 int) {
	vector.normTotals(totals[col0:col1], totals[cols+col0:cols+col1], sums[col0:], NormChunks(rows), col1-col0, cols)
}

// BatchNormGrad sets dx to the gradient of BatchNorm's x, for any rows of a
// micro-batch that has n rows in all:
//
//	dx = gamma/√(var + eps) * (dz - totals[0]/n - h totals[1]/n) [+ add]
//
// where h is the normalised x and dz is as in BatchNormGradSums. add may be
// nil; it is the gradient that reaches x by another path. dx may be dy, x or
// add.
func BatchNormGrad(dx, dy, x, add, stats, totals, gamma, beta []float32, relu bool, rows, cols, n int) {
	mean, scale := stats[:cols], stats[cols:2*cols]
	total, totalX := totals[:cols], totals[cols:2*cols]
	share := 1 / float32(n)
	switch {
	case add == nil && relu:
		vector.batchNormReluGrad(dx, dy, x, mean, scale, total, totalX, gamma, beta, rows, cols, share)
	case add == nil:
		vector.batchNormGrad(dx, dy, x, mean, scale, total, totalX, gamma, rows, cols, share)
	case relu:
		vector.batchNormReluGradAdd(dx, dy, x, add, mean, scale, total, totalX, gamma, beta, rows, cols, share)
	default:
		vector.batchNormGradAdd(dx, dy, x, add, mean, scale, total, totalX, gamma, rows, cols, share)
	}
}
