package nn

import (
	"time"

	"gpipebench/internal/kernel"
	"gpipebench/internal/stats"
)

// KernelProfile names the kernels in use: "avx512", "avx2", "neon" or "generic".
// All give the same bits.
func KernelProfile() string { return kernel.Profile() }

// VectorLanes returns the number of float32s in a vector of the kernels in use.
func VectorLanes() int {
	return max(1, map[string]int{"avx512": 16, "avx2": 8, "neon": 4}[kernel.Profile()])
}

// VectorBandwidth measures the bytes per second that are moved when a vector of
// 64 MiB is added to another, too large for caches: two are read and one is
// written. It is the median of five measurements.
func VectorBandwidth() float64 {
	const floats = 16 << 20
	x, y := make([]float32, floats), make([]float32, floats)
	var times []float64
	for range 5 {
		start := time.Now()
		kernel.Add(x, x, y)
		times = append(times, time.Since(start).Seconds())
	}
	return 3 * 4 * floats / stats.Median(times)
}
