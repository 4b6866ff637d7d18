package programtest

import (
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Trace builds a function by hand from its inputs.
type Trace struct {
	*graph.Graph
	Function program.Function
}

// NewTrace returns an empty trace.
func NewTrace() *Trace {
	g := &graph.Graph{}
	return &Trace{g, program.Function{Graph: g}}
}

// In adds a boundary input.
func (t *Trace) In(name string, dt graph.DType, shape ...int) *graph.Node {
	n := t.NewNode(graph.Input, name, dt, shape...)
	t.Function.In = append(t.Function.In, n)
	return n
}

// Feed adds an input from the mini-batch.
func (t *Trace) Feed(name string, dt graph.DType, shape ...int) *graph.Node {
	n := t.NewNode(graph.Input, name, dt, shape...)
	t.Function.Feeds = append(t.Function.Feeds, n)
	return n
}

// Param adds a parameter.
func (t *Trace) Param(name string, shape ...int) *graph.Node {
	n := t.NewNode(graph.Param, name, graph.F32, shape...)
	t.Function.Params = append(t.Function.Params, n)
	return n
}
