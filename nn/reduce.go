package nn

import "gpipebench/nn/internal/kernel"

// What the pipeline's runtime computes by itself, beside its programs.

// SumSquares is the float64 sum of squares, a fixed tree over len(x).
func SumSquares(x []float32) float64 { return kernel.SumSquares(x) }

// AddInto adds src to dst, element by element.
func AddInto(dst, src []float32) { kernel.Add(dst, dst, src) }

// Zero sets x to +0.
func Zero(x []float32) { kernel.Zero(x) }

// MoveStatistics moves a batch norm's averages by what a mini-batch's
// micro-batches have added up in tally, as graph.BatchNormStatsOp describes it:
// average = momentum average + (1 - momentum) statistic. The variance is the
// estimate with n-1 if unbiased, else the mean squared deviation.
func MoveStatistics(mean, variance []float32, tally []float64, momentum float64, unbiased bool) {
	kernel.MoveStatistics(mean, variance, tally, momentum, unbiased)
}

// FirstNonFinite is the index of the first NaN or infinity in x, or -1.
func FirstNonFinite(x []float32) int { return kernel.FirstNonFinite(x) }

// KernelProfile names the kernels in use, "avx512", "avx2" or "generic": the
// bits of results are promised within one profile.
func KernelProfile() string { return kernel.Profile() }
