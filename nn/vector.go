package nn

import (
	"time"

	"gpipebench/internal/stats"
	"gpipebench/nn/internal/kernel"
)

// KernelProfile names the kernels in use: "avx512", "avx2" or "generic".
// Results have the same bits only within one profile.
func KernelProfile() string { return kernel.Profile() }

// VectorLanes is how many float32 a vector of the kernels in use holds.
func VectorLanes() int {
	switch kernel.Profile() {
	case "avx512":
		return 16
	case "avx2":
		return 8
	}
	return 1
}

// VectorBandwidth measures the bytes per second that adding a vector of 64 MiB to
// another moves: two are read and one is written, and caches do not hold them. It is
// the median of five.
func VectorBandwidth() float64 {
	const floats = 16 << 20
	x, y := make([]float32, floats), make([]float32, floats)
	var times []float64
	for range 5 {
		start := time.Now()
		AddInto(x, y)
		times = append(times, time.Since(start).Seconds())
	}
	return 3 * 4 * floats / stats.Median(times)
}
