package nn_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"gpipebench/gpipe"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// A network is a list of pipeline layers. The parameters have paths: the
// pipeline layer's name, then the name within it.
func ExampleSequential() {
	layers := []nn.Layer{
		nn.Sequential("hidden",
			nn.NewDense("dense", nn.DenseConfig{In: 784, Out: 128, Activation: nn.ReLU}),
			nn.NewDropout("dropout", 0.1),
		),
		nn.Sequential("classifier", nn.NewDense("", nn.DenseConfig{In: 128, Out: 10})),
	}
	for _, l := range layers {
		for _, p := range l.Params() {
			fmt.Println(l.Name()+"/"+p.Name, p.Shape)
		}
	}
	fmt.Println(nn.CountParams(layers), "parameters")
	// Output:
	// hidden/dense/weight (784,128)
	// hidden/dense/bias (128)
	// classifier/weight (128,10)
	// classifier/bias (10)
	// 101770 parameters
}

// A layer is a forward function: this one is swish, x times the logistic function
// of x.
func ExampleFunc() {
	swish := nn.Func("swish", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		return []*graph.Node{t.Mul(in[0], t.Sigmoid(in[0]))}
	})
	learn(nn.MeanSquaredError{}, nn.NewDense("d1", nn.DenseConfig{In: 2, Out: 8}), swish, nn.NewDense("d2", nn.DenseConfig{In: 8, Out: 1}))
	// Output:
	// 33 parameters, learns: true, different weights for 1 to 3 partitions: 1
}

// A layer with a parameter of its own: the slope of the negative half of each
// channel (He et al. 2015). Each example gets a copy of it, so its gradient is the
// sum over all examples of a mini-batch.
func ExampleParam() {
	slope := &nn.Param{Name: "slope", Shape: graph.Shape{8}, Init: nn.Constant(0.25), NoDecay: true}
	prelu := nn.Func("prelu", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		x := in[0]
		slopes := t.Repeat(t.Param(slope), 0, x.Shape[0])
		positive := t.ReLU(x)
		return []*graph.Node{t.Add(positive, t.Mul(slopes, t.Sub(x, positive)))}
	}, slope)
	learn(nn.MeanSquaredError{}, nn.NewDense("d1", nn.DenseConfig{In: 2, Out: 8}), prelu, nn.NewDense("d2", nn.DenseConfig{In: 8, Out: 1}))
	// Output:
	// 41 parameters, learns: true, different weights for 1 to 3 partitions: 1
}

// logCosh is a loss made of ops: the logarithm of the hyperbolic cosine of the
// error, summed over the elements of each example.
type logCosh struct{}

func (logCosh) Loss(t *nn.Trace, out, targets []*graph.Node) []*graph.Node {
	nn.WantTuple("log-cosh", "loss", out, 1)
	nn.WantTuple("log-cosh", "loss", targets, 1)
	e := t.Map(graph.Elementwise{
		Name:       "log-cosh",
		F:          func(x float64) float64 { return math.Abs(x) + math.Log1p(math.Exp(-2*math.Abs(x))) - math.Ln2 },
		Derivative: math.Tanh,
	}, t.Sub(out[0], targets[0]))
	return []*graph.Node{t.EndLoss(t.Sum(e))}
}

// A loss computes a number for each example and ends with EndLoss. An element-wise
// op that is not there is a scalar function and its derivative.
func ExampleLoss() {
	learn(logCosh{}, nn.NewDense("d1", nn.DenseConfig{In: 2, Out: 8, Activation: nn.Tanh}), nn.NewDense("d2", nn.DenseConfig{In: 8, Out: 1}))
	// Output:
	// 33 parameters, learns: true, different weights for 1 to 2 partitions: 1
}

// learn fits layers to the product of two numbers, with every number of
// partitions.
func learn(loss nn.Loss, layers ...nn.Layer) {
	const n = 16
	batch := nn.Batch{
		Inputs:  []nn.Tensor{{Shape: []int{n, 2}}},
		Targets: []nn.Tensor{{Shape: []int{n, 1}}},
		Count:   n,
	}
	for i := range n {
		x, y := float32(i%4)/2-1, float32(i/4)/2-1
		batch.Inputs[0].F32 = append(batch.Inputs[0].F32, x, y)
		batch.Targets[0].F32 = append(batch.Targets[0].F32, x*y)
	}
	hashes := map[string]bool{}
	var first, last float64
	for k := 1; k <= len(layers); k++ {
		trainer, err := gpipe.Pipeline{
			Layers: layers, Loss: loss, Partitions: k, MicroBatches: 2 * k,
			Numerics: gpipe.Numerics{Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.03)},
		}.Open(gpipe.InputOf(batch))
		if err != nil {
			log.Fatal(err)
		}
		for step := range 100 {
			r, err := trainer.Step(context.Background(), batch)
			if err != nil {
				log.Fatal(err)
			}
			if last = r.Loss; step == 0 {
				first = r.Loss
			}
		}
		hashes[trainer.Hash()] = true
		trainer.Close()
	}
	fmt.Printf("%d parameters, learns: %v, different weights for 1 to %d partitions: %d\n",
		nn.CountParams(layers), last < first/4, len(layers), len(hashes))
}
