package graph_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// runningSums has the sum of each row's elements so far, in each place: from the
// first on, or from the last.
func runningSums(name string, backwards bool) graph.Function {
	return graph.Function{
		Name:    name,
		Promise: graph.PerExample, // each row is computed from itself, in one order
		Types: func(in []graph.Type) ([]graph.Type, error) {
			if len(in) != 1 || in[0].DType == graph.I32 {
				return nil, fmt.Errorf("%d inputs, want one of floating point", len(in))
			}
			return in, nil
		},
		Run: func(out, in []graph.Tensor) {
			columns := in[0].Shape.Last()
			copy(out[0].F32, in[0].F32)
			for row := range slices.Chunk(out[0].F32, columns) {
				for i := 1; i < columns; i++ {
					if backwards {
						row[columns-1-i] += row[columns-i]
					} else {
						row[i] += row[i-1]
					}
				}
			}
		},
		FLOPs: func(in, _ []graph.Type) int64 { return int64(in[0].Shape.Elems()) },
	}
}

// A general operation has types, a kernel, a gradient and a cost. An element of the
// input counts in all sums after it, so the gradient is the running sum from the
// end.
func ExampleFunction() {
	sums := runningSums("running-sums", false)
	grad := runningSums("running-sums-grad", true)
	sums.Gradient = func(g *graph.Graph, _, _, dout []*graph.Node) []*graph.Node { return g.Compute(grad, dout...) }

	layers := []nn.Layer{
		nn.NewDense("in", nn.DenseConfig{In: 3, Out: 4}),
		nn.Func("sums", func(t *nn.Trace, in ...*graph.Node) []*graph.Node { return t.Compute(sums, in...) }),
		nn.NewDense("out", nn.DenseConfig{In: 4, Out: 2}),
	}
	batch := nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{2, 3}, F32: []float32{1, 2, 3, -1, 0, 1}}},
		Targets: []nn.Tensor{{Shape: []int{2, 2}, F32: []float32{1, 0, 0, 1}}},
		Count:   2,
	}
	hashes := map[string]bool{}
	for _, way := range [][2]int{{1, 1}, {1, 2}, {3, 1}, {3, 2}} {
		t, err := gpipe.Pipeline{
			Layers: layers, Loss: nn.MeanSquaredError{}, Partitions: way[0], MicroBatches: way[1],
			Numerics: gpipe.Numerics{Optimizer: nn.SGD{}, LR: nn.ConstantLR(0.01)},
		}.Open(gpipe.InputOf(batch))
		if err != nil {
			log.Fatal(err)
		}
		for range 10 {
			if _, err := t.Step(context.Background(), batch); err != nil {
				log.Fatal(err)
			}
		}
		hashes[t.Hash()] = true
		t.Close()
	}
	fmt.Println("different weights for four ways to run:", len(hashes))
	// Output:
	// different weights for four ways to run: 1
}
