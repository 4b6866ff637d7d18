package programtest

import (
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// Network is the input of CompileLayers.
type Network struct {
	Layers      []nn.Layer
	Loss        nn.Loss      // nil: none, and every floating-point output has a gradient from outside
	In, Targets []graph.Type // of one micro-batch
	Evaluate    bool
	Threads     int // 0: 1
	Storage     program.Storage
	Split       bool // the backward function also in two
}

// CompileLayers compiles a whole network as one stage, with parameters
// initialised from the seed 1.
func CompileLayers(t testing.TB, n Network) *Runner {
	t.Helper()
	threads := max(n.Threads, 1)
	s := trace.Layers(n.Layers, 0, n.Loss, n.In, n.Targets, !n.Evaluate)
	s.Function.Split = n.Split
	var r *Runner
	if n.Evaluate {
		r = CompileEvaluate(t, s.Function, threads, n.Storage)
	} else {
		gradOut := make([]bool, len(s.Out))
		for i, out := range s.Out {
			gradOut[i] = n.Loss == nil && out.DType != graph.I32
		}
		r = CompileStored(t, s.Function, gradOut, true, threads, n.Storage)
	}
	for i, p := range s.Params {
		name := s.Function.Params[i].Name
		p.Init(philox.NewStream(philox.KeyOf(1, name), 0), p.Shape, r.Param(name))
	}
	return r
}

// Floats returns the type of a float32 tensor.
func Floats(shape ...int) graph.Type { return graph.Type{Shape: shape, DType: graph.F32} }

// Integers returns the type of an int32 tensor.
func Integers(shape ...int) graph.Type { return graph.Type{Shape: shape, DType: graph.I32} }
