// Package state has what an nn.Trace holds beside its graph. It is a package of
// its own, below nn, so that the tracer of stages, above nn, can fill and read
// what no layer should see.
package state

import "gpipebench/nn/graph"

// Trace is the state of a trace. Param is nn.Param.
type Trace[Param any] struct {
	Layer  string                 // scope of the layer that is being traced
	Params map[*Param]*graph.Node // the values of all parameters
	Moving []Moving[Param]        // the moving averages met so far
}

// Moving is a pair of moving averages that follow the statistics of
// mini-batches, which the micro-batches accumulate in Tally.
type Moving[Param any] struct {
	Mean, Variance *Param
	Momentum       float64
	Unbiased       bool
	Tally          *graph.Node
}
