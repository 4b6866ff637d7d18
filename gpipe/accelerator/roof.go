package accelerator

import (
	"context"
	"time"

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

// The operations that MeasureRoof times, and how often. The product is as large as one of
// a small network; the vectors have 64 MiB each.
const (
	roofProduct = 512
	roofVector  = 16 << 20
	roofTurns   = 10
)

// MeasureRoof measures, which takes less than a second on one core. The rate of products
// is the best of several, the bandwidth a median. Nothing else should run meanwhile.
func MeasureRoof(ctx context.Context, threads int) (Roof, error) {
	r := Roof{Threads: max(threads, 1)}
	pool := program.NewPool(threads)
	defer pool.Close()
	const n = roofProduct
	product, err := roofTimes(ctx, pool, []int{n, n}, (*graph.Graph).MatMul)
	if err != nil {
		return r, err
	}
	sum, err := roofTimes(ctx, pool, []int{roofVector}, (*graph.Graph).Add)
	if err != nil {
		return r, err
	}
	best := product[0]
	for _, t := range product {
		best = min(best, t)
	}
	r.FLOPs = 2 * n * n * n / best
	r.Bandwidth = 3 * 4 * roofVector / stats.Median(sum)
	return r, nil
}

// roofTimes times an operation on two tensors of one shape.
func roofTimes(ctx context.Context, pool *program.Pool, shape []int, op func(g *graph.Graph, a, b *graph.Node) *graph.Node) (seconds []float64, err error) {
	g := &graph.Graph{}
	a, b := g.NewNode(graph.Input, "a", graph.F32, shape...), g.NewNode(graph.Param, "b", graph.F32, shape...)
	st := program.CompileEvaluate(program.Function{Graph: g, In: []*graph.Node{a}, Out: []*graph.Node{op(g, a, b)}, Params: []*graph.Node{b}}, pool.Threads())
	var memory program.Binding
	for s := range memory {
		memory[s] = make([]float32, st.Span[s])
		for i := range memory[s] {
			memory[s][i] = float32(i%7) - 3
		}
	}
	for range 1 + roofTurns {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := st.Forward.Run(pool, &memory, &program.Env{}, program.Options{}); err != nil {
			return nil, err
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	return seconds[1:], nil // the first warms up
}
