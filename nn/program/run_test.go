package program_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// TestHighIsSpan: the three programs use of each space exactly what the
// plan says, to the float.
func TestHighIsSpan(t *testing.T) {
	for _, c := range opCases {
		for _, threads := range []int{1, 3} {
			t.Run(c.name, func(t *testing.T) {
				r := c.runner(t, 0, miniBatch, threads)
				var most [program.Spaces]int
				for _, p := range []struct {
					*program.Program
					run func()
				}{{r.Stage.Forward, r.Forward}, {r.Stage.Keep, r.Keep}, {r.Stage.Backward, r.Backward}} {
					var high [program.Spaces]int
					r.Options.High = &high
					p.run()
					testkit.Equal(t, high[program.Workspace], p.Span, "%s: workspace up to", p.Name)
					for s, end := range high {
						most[s] = max(most[s], end)
					}
				}
				for s, span := range r.Stage.Span {
					// Inputs, parameters and gradients from outside need not be
					// read to their end.
					given := s == int(program.In) || s == int(program.Params) || s == int(program.DOut)
					if most[s] > span || most[s] < span && !given {
						t.Errorf("%s: up to %d are used, %d are planned", program.Space(s), most[s], span)
					}
				}
			})
		}
	}
}

// TestTrap: the error names the first instruction with an output that is not
// finite, and its layer.
func TestTrap(t *testing.T) {
	c := opCase{trace: func(b *builder) []*graph.Node {
		x := b.Scale(b.x("x", 7), 2)
		b.Layer = 5
		x = b.Scale(x, math.MaxFloat32)
		b.Layer = 6
		return one(b.AddBias(x, b.w("b", 7)))
	}}
	for _, dt := range []graph.DType{graph.F32, graph.BF16} {
		c.storage = program.Of(dt)
		r := c.runner(t, 0, 2, 1)
		pool := program.NewPool(1)
		defer pool.Close()
		run := func(o program.Options) error {
			var b program.Binding
			for s := range b {
				b[s] = r.Space(program.Space(s))
			}
			return r.Stage.Forward.Run(pool, &b, &r.Env, o)
		}
		testkit.Equal(t, run(program.Options{}), nil, "%v without a trap", dt)
		err := run(program.Options{Trap: true})
		var nonFinite *program.NonFiniteError
		if !errors.As(err, &nonFinite) || nonFinite.Layer != 5 || nonFinite.Op != "scale" || nonFinite.Program != "forward" || !math.IsInf(float64(nonFinite.Value), 0) {
			t.Errorf("%v: error %v, want one of an infinity out of scale in forward of layer 5", dt, err)
		}
	}
}

// TestThreadsOfRun: scratch is laid out for a fixed number of threads.
func TestThreadsOfRun(t *testing.T) {
	r := opCases[0].runner(t, 0, 2, 2)
	pool := program.NewPool(1)
	defer pool.Close()
	testkit.Fails(t, r.Stage.Forward.Run(pool, &program.Binding{}, &r.Env, program.Options{}), "compiled for 2 threads, not 1")
}

// TestThreadsTakePart: each thread of a pool does its part, beside those of the others.
func TestThreadsTakePart(t *testing.T) {
	pool := program.NewPool(3)
	defer pool.Close()
	var all sync.WaitGroup
	all.Add(3)
	did := make([]int, 3)
	pool.Do(func(part int) {
		all.Done()
		all.Wait() // for ever if a thread has two parts
		did[part]++
	})
	testkit.EqualAll(t, did, []int{1, 1, 1}, "how often each part was done")
}
