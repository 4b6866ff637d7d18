package nn_test

import (
	"testing"

	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
)

// TestShapingAgainstPyTorch compares sums, copies, other shapes and the functions
// of rows with PyTorch.
func TestShapingAgainstPyTorch(t *testing.T) {
	oracle := programtest.ReadOracle(t, "testdata/shaping.json")
	var config struct{ Functions []string }
	oracle.Config(&config)
	functions := map[string]func(tr *programtest.Trace, x *graph.Node) *graph.Node{
		"exp": func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Exp(x) },
		"log": func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Log(x) },
		"sub": func(tr *programtest.Trace, x *graph.Node) *graph.Node {
			return tr.Sub(x, tr.In("positive", graph.F32, x.Shape...))
		},
		"softmax":     func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Softmax(x) },
		"sum1":        func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Sum(x, 1) },
		"sum13":       func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Sum(x, 3, 1) },
		"mean":        func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Mean(x) },
		"repeat2":     func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Repeat(x, 2, 6) },
		"flatten":     func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Flatten(x) },
		"reshape":     func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Reshape(x, 10, -1) },
		"transpose13": func(tr *programtest.Trace, x *graph.Node) *graph.Node { return tr.Transpose(x, 1, 3) },
	}
	for _, name := range config.Functions {
		t.Run(name, func(t *testing.T) {
			tr := programtest.NewTrace()
			tr.Function.Out = []*graph.Node{functions[name](tr, tr.In("x", graph.F32, oracle.Shape("x")...))}
			r := programtest.Compile(t, tr.Function, []bool{true}, 1)
			from := "x"
			if name == "log" {
				from = "positive"
			}
			copy(r.In(0), oracle.Floats(from))
			if len(tr.Function.In) > 1 {
				copy(r.In(1), oracle.Floats("positive"))
			}
			copy(r.DOut(0), oracle.Floats(name+"/dy"))
			r.Keep()
			r.Backward()
			oracle.Close(t, name+"/y", r.Out(0), oracleTolerance)
			oracle.Close(t, name+"/dx", r.DIn(0), oracleTolerance)
		})
	}
}
