package nn

import "gpipebench/nn/internal/kernel"

// What the pipeline's runtime computes itself, outside its programs.

// SumSquares returns the sum of squares in float64, added in a tree that
// depends only on len(x).
func SumSquares(x []float32) float64 { return kernel.SumSquares(x) }

// AddInto adds src to dst, element by element.
func AddInto(dst, src []float32) { kernel.Add(dst, dst, src) }

// Zero sets x to +0.
func Zero(x []float32) { kernel.Zero(x) }

// MoveStatistics moves a batch norm's averages by the statistics of a
// mini-batch, which its micro-batches have accumulated in tally (see
// graph.BatchNormStatsOp): average = momentum average + (1 - momentum)
// statistic. The variance is the estimate with n-1 if unbiased, else the mean
// squared deviation.
func MoveStatistics(mean, variance []float32, tally []float64, momentum float64, unbiased bool) {
	kernel.MoveStatistics(mean, variance, tally, momentum, unbiased)
}

// FirstNonFinite returns the index of the first NaN or infinity in x, or -1.
func FirstNonFinite(x []float32) int { return kernel.FirstNonFinite(x) }
