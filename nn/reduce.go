package nn

import "gpipebench/nn/internal/kernel"

// What the pipeline's runtime computes by itself, beside its programs.

// SumSquares is the float64 sum of squares, a fixed tree over len(x).
func SumSquares(x []float32) float64 { return kernel.SumSquares(x) }

// AddInto adds src to dst, element by element.
func AddInto(dst, src []float32) { kernel.Add(dst, dst, src) }

// Zero sets x to +0.
func Zero(x []float32) { kernel.Zero(x) }

// FirstNonFinite is the index of the first NaN or infinity in x, or -1.
func FirstNonFinite(x []float32) int { return kernel.FirstNonFinite(x) }

// KernelProfile names the kernels in use, "avx512", "avx2" or "generic": the
// bits of results are promised within one profile.
func KernelProfile() string { return kernel.Profile() }
