package main

import (
	"math"

	"gpipebench/nn"
)

// regression fits a curve by the mean squared error.
var regression = network{
	name: "regression",
	layers: func() []nn.Layer {
		return []nn.Layer{
			nn.NewDense("hidden1", nn.DenseConfig{In: 1, Out: 16, Activation: nn.Tanh}),
			nn.NewDense("hidden2", nn.DenseConfig{In: 16, Out: 16, Activation: nn.Tanh}),
			nn.NewDense("out", nn.DenseConfig{In: 16, Out: 1}),
		}
	},
	loss:  nn.MeanSquaredError{},
	batch: curve(16),
	rate:  0.01,
}

// curve has n points of a sine.
func curve(n int) nn.Batch {
	x, y := nn.Tensor{Shape: []int{n, 1}}, nn.Tensor{Shape: []int{n, 1}}
	for i := range n {
		v := 4*float64(i)/float64(n) - 2
		x.F32, y.F32 = append(x.F32, float32(v)), append(y.F32, float32(math.Sin(2*v)))
	}
	return nn.Batch{Inputs: []nn.Tensor{x}, Targets: []nn.Tensor{y}, Count: n}
}
