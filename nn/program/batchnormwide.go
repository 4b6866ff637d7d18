package program

import (
	"slices"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Batch norm over replicas. A program with it runs on all replicas at the same time,
// and they meet in its middle.

func init() {
	register(func(o op.BatchNormTally, c *graph.Call) traits {
		cols := c.In[0].Shape.Last()
		return traits{kernel: overColumns(cols, func(w *worker, in, out [][]float32, from, to int) {
			kernel.BatchNormTally(doubles(out[0]), w.tally(out[1]), in[0], o.Rows, cols, from, to)
		})}
	})
	register(func(_ op.BatchNormOverReplicas, _ *graph.Call) traits {
		return traits{kernel: plain(moveAll)} // in place; see Meeting for the rest
	})
	register(func(o op.BatchNormWideStats, c *graph.Call) traits {
		cols := c.Out[0].Shape.Last()
		return traits{kernel: overColumns(cols, func(_ *worker, in, out [][]float32, from, to int) {
			kernel.BatchNormWideStats(out[0], doubles(in[0]), o.Rows, cols, o.Eps, from, to)
		})}
	})
	register(func(_ op.BatchNormWideTotals, c *graph.Call) traits {
		cols := c.In[0].Shape.Last()
		return traits{kernel: overColumns(cols, func(_ *worker, in, out [][]float32, from, to int) {
			kernel.BatchNormWideTotals(out[0], in[0], in[1], cols, from, to)
		})}
	})
}

// Meeting is a value that is added up over replicas by an instruction: one chain, in
// ascending order of replicas.
type Meeting struct {
	Sum   []float32                    // this replica's value; when Options.Meet returns, that of all
	Other []float32                    // room for the value of another replica
	Add   func(sum, summand []float32) // adds the value of the next replica to that of the ones before it
}

// addOf is how a call adds up values over replicas, or nil.
func addOf(c *graph.Call) func(sum, summand []float32) {
	o, ok := c.Op.(op.BatchNormOverReplicas)
	switch {
	case !ok:
		return nil
	case o.Tallies:
		return func(sum, summand []float32) { kernel.CombineTallies(doubles(sum), doubles(summand)) }
	}
	return func(sum, summand []float32) { kernel.Add(sum, sum, summand) }
}

// Meetings returns, for each Meeting of the program, the part of the program before it,
// for its costs, and the bytes of the value.
func (p *Program) Meetings() (before []*Program, bytes []int64) {
	for i := range p.Instrs {
		if in := &p.Instrs[i]; in.add != nil {
			before = append(before, &Program{Name: p.Name, Instrs: p.Instrs[:i+1]})
			bytes = append(bytes, 4*int64(in.out[0].Len))
		}
	}
	return before, bytes
}

// Again returns the program for the same micro-batch in the same step, once Forward or
// Keep has run: it reads Statistics, and leaves out what only they depend on. Without
// statistics over replicas it is the program itself.
func (p *Program) Again() *Program {
	if p.again != nil {
		return p.again
	}
	return p
}

// without returns the program without the instructions of these calls.
func (p *Program) without(calls map[*graph.Call]bool) *Program {
	q := &Program{Name: p.Name, threads: p.threads, scratch: p.scratch, Span: p.scratch * p.threads}
	for _, in := range p.Instrs {
		if calls[in.step.call] {
			continue
		}
		q.Instrs = append(q.Instrs, in)
		for _, all := range [][]Operand{in.in, in.out} {
			for _, o := range all {
				if o.Space == Workspace {
					q.Span = max(q.Span, o.End())
				}
			}
		}
	}
	return q
}

// statistics places the results of batch norms over replicas in their space.
func (c *compiler) statistics(calls []*graph.Call, span *[Spaces]int) map[*graph.Node]bool {
	var nodes []*graph.Node
	var sizes []int
	for _, call := range calls {
		if _, ok := call.Op.(op.BatchNormWideStats); ok {
			nodes = append(nodes, call.Out[0])
			sizes = append(sizes, call.Out[0].Elems())
		}
	}
	offsets, total := Layout(sizes)
	span[Statistics] = total
	kept := map[*graph.Node]bool{}
	for i, n := range nodes {
		c.fixed[n] = Operand{Statistics, offsets[i], sizes[i]}
		kept[n] = true
	}
	return kept
}

// onlyFor returns the calls on which nothing but the kept values depends.
func onlyFor(kept map[*graph.Node]bool, calls []*graph.Call, results []*graph.Node, residual map[*graph.Node]Operand) map[*graph.Call]bool {
	wanted := map[*graph.Node]bool{}
	for _, n := range results {
		wanted[n] = true
	}
	for n := range residual {
		wanted[n] = true
	}
	only := map[*graph.Call]bool{}
	for _, c := range slices.Backward(calls) {
		only[c] = true
		for _, n := range c.Out {
			if wanted[n] && !kept[n] {
				delete(only, c)
			}
		}
		if !only[c] {
			for _, n := range c.In {
				wanted[n] = true
			}
		}
	}
	return only
}
