package program

import (
	"context"
	"time"

	"gpipebench/nn/graph"
)

// Product is C = A·B of n x n matrices as a program of one instruction on one
// thread, for measuring the rate of a core.
type Product struct {
	n       int
	stage   *Stage
	pool    *Pool
	binding Binding
}

// NewProduct compiles a product and fills its matrices. Close frees its thread.
func NewProduct(n int) *Product {
	g := &graph.Graph{}
	a, b := g.NewNode(graph.Input, "a", graph.F32, n, n), g.NewNode(graph.Param, "b", graph.F32, n, n)
	f := Function{Graph: g, In: []*graph.Node{a}, Out: []*graph.Node{g.MatMul(a, b)}, Params: []*graph.Node{b}}
	p := &Product{n: n, stage: CompileEvaluate(f, 1), pool: NewPool(1)}
	for s := range p.binding {
		p.binding[s] = make([]float32, p.stage.Span[s])
		for i := range p.binding[s] {
			p.binding[s][i] = float32(i%7) - 3
		}
	}
	return p
}

// Rate computes the product repeatedly for at least the given time and returns
// the rate in FLOP/s.
func (p *Product) Rate(least time.Duration) (float64, error) {
	n := float64(p.n)
	start := time.Now()
	for flops := 2 * n * n * n; ; flops += float64(2 * n * n * n) {
		if err := p.stage.Forward.Run(p.pool, &p.binding, &Env{}, Options{}); err != nil {
			return 0, err
		}
		if took := time.Since(start); took >= least {
			return flops / took.Seconds(), nil
		}
	}
}

// Close ends the product's thread.
func (p *Product) Close() { p.pool.Close() }

// CoreRate returns the rate that one core reaches in a product of 512 x 512
// matrices, in FLOP/s: the best of 40, as for a peak.
func CoreRate(ctx context.Context) (best float64, err error) {
	p := NewProduct(512)
	defer p.Close()
	for range 40 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		rate, err := p.Rate(0)
		if err != nil {
			return 0, err
		}
		best = max(best, rate)
	}
	return best, nil
}
