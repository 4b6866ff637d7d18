package program

import (
	"context"
	"slices"
	"time"

	"gpipebench/nn/graph"
)

// Timed is an operation on two tensors of one shape, as a program of one instruction, for
// measuring what cores reach.
type Timed struct {
	stage   *Stage
	pool    *Pool
	binding Binding
}

// NewTimed compiles an operation, such as (*graph.Graph).MatMul, and fills its tensors. Close frees
// its threads.
func NewTimed(threads int, op func(g *graph.Graph, a, b *graph.Node) *graph.Node, shape ...int) *Timed {
	g := &graph.Graph{}
	a, b := g.NewNode(graph.Input, "a", graph.F32, shape...), g.NewNode(graph.Param, "b", graph.F32, shape...)
	f := Function{Graph: g, In: []*graph.Node{a}, Out: []*graph.Node{op(g, a, b)}, Params: []*graph.Node{b}}
	t := &Timed{pool: NewPool(threads)}
	t.stage = CompileEvaluate(f, t.pool.Threads(), Storage{})
	for s := range t.binding {
		t.binding[s] = make([]float32, t.stage.Span[s])
		for i := range t.binding[s] {
			t.binding[s][i] = float32(i%7) - 3
		}
	}
	return t
}

// Seconds runs the operation repeatedly for at least the given time, and returns the mean time of
// a run.
func (t *Timed) Seconds(least time.Duration) (float64, error) {
	start := time.Now()
	for runs := 1; ; runs++ {
		if err := t.stage.Forward.Run(t.pool, &t.binding, &Env{}, Options{}); err != nil {
			return 0, err
		}
		if took := time.Since(start); took >= least {
			return took.Seconds() / float64(runs), nil
		}
	}
}

// Close ends the operation's threads.
func (t *Timed) Close() { t.pool.Close() }

// Times returns the seconds of each of several runs of an operation, after one that warms up.
func Times(ctx context.Context, threads, runs int, op func(g *graph.Graph, a, b *graph.Node) *graph.Node, shape ...int) ([]float64, error) {
	t := NewTimed(threads, op, shape...)
	defer t.Close()
	seconds := make([]float64, 1+runs)
	for i := range seconds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if seconds[i], err = t.Seconds(0); err != nil {
			return nil, err
		}
	}
	return seconds[1:], nil
}

// CoreRate returns the rate that one core reaches in a product of 512 x 512
// matrices, in FLOP/s: the best of 40, as for a peak.
func CoreRate(ctx context.Context) (best float64, err error) {
	const n = 512
	times, err := Times(ctx, 1, 40, (*graph.Graph).MatMul, n, n)
	if err != nil {
		return 0, err
	}
	return 2 * n * n * n / slices.Min(times), nil
}
