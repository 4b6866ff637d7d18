package accelerator

import (
	"context"
	"slices"

	"gpipebench/internal/stats"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Roof is what this machine's kernels reach at best on some threads: the upper limits of
// the roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009).
type Roof struct {
	Threads   int     `json:"threads"`
	FLOPs     float64 `json:"flops_per_second"` // of a product of two matrices
	Bandwidth float64 `json:"bytes_per_second"` // of a sum of two vectors too large for caches
}

// Seconds is the least time for an operation with so much arithmetic and traffic.
func (r Roof) Seconds(flops, bytes float64) float64 { return max(flops/r.FLOPs, bytes/r.Bandwidth) }

// MeasureRoof measures, which takes less than a second on one core: the rate of products is the
// best of several of a size that small networks have, the bandwidth a median of sums of vectors of
// 64 MiB. Nothing else should run meanwhile.
func MeasureRoof(ctx context.Context, threads int) (Roof, error) {
	const n, vector, runs = 512, 16 << 20, 10
	r := Roof{Threads: max(threads, 1)}
	products, err := program.Times(ctx, threads, runs, (*graph.Graph).MatMul, n, n)
	if err != nil {
		return r, err
	}
	sums, err := program.Times(ctx, threads, runs, (*graph.Graph).Add, vector)
	if err != nil {
		return r, err
	}
	r.FLOPs = 2 * n * n * n / slices.Min(products)
	r.Bandwidth = 3 * 4 * vector / stats.Median(sums)
	return r, nil
}
