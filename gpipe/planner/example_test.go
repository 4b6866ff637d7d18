package planner_test

import (
	"context"
	"fmt"
	"log"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/planner"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// residual is a layer of the caller's own: y = x + relu(x W).
type residual struct {
	name  string
	dense *nn.Dense
}

func (r *residual) Name() string        { return r.name }
func (r *residual) Params() []*nn.Param { return r.dense.Params() }

func (r *residual) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	return []*graph.Node{t.Add(in[0], t.ReLU(r.dense.Forward(t, in...)[0]))}
}

// The best way to train 1.2 billion parameters of one's own layers on up to eight
// accelerators. One of them has no room for the parameters with Adam's state.
func ExampleSearch() {
	var layers []nn.Layer
	for i := range 18 {
		layers = append(layers, &residual{fmt.Sprint("layer", i+1), nn.NewDense("dense", nn.DenseConfig{In: 8192, Out: 8192, NoBias: true})})
	}
	layers = append(layers, nn.Sequential("classifier", nn.NewDense("", nn.DenseConfig{In: 8192, Out: 1000})))
	chip, err := accelerator.Named("tpuv2")
	if err != nil {
		log.Fatal(err)
	}
	plan, err := planner.Search{
		Pipeline: gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}, Numerics: gpipe.Numerics{Optimizer: nn.Adam{}}, Devices: []gpipe.Device{gpipe.DeviceOf(chip)}},
		Input: gpipe.Input{
			Examples: 1024,
			Inputs:   []graph.Type{{Shape: graph.Shape{8192}, DType: graph.F32}},
			Targets:  []graph.Type{{DType: graph.I32}},
		},
		How: gpipe.Modelling{DType: graph.BF16}, Devices: 8,
	}.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	best := plan.Plans[0]
	fmt.Println(plan.Params, "parameters")
	fmt.Println("replicas:", best.R, "partitions:", best.K, "fits:", best.PeakBytes <= chip.Memory)
	fmt.Println("more micro-batches than one:", best.M > 1, "of", best.Batch, "examples")
	// Output:
	// 1216152552 parameters
	// replicas: 2 partitions: 4 fits: true
	// more micro-batches than one: true of 1024 examples
}
