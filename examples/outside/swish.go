package main

import (
	"math"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// swish is the regression with an activation that the library does not have, from
// a scalar function and its derivative (Ramachandran et al. 2017), and a layer
// with a parameter of its own.
var swish = network{
	name: "swish",
	layers: func() []nn.Layer {
		return []nn.Layer{
			nn.NewDense("hidden1", nn.DenseConfig{In: 1, Out: 16}),
			activation("swish1", swishOf),
			gain("gain", 16),
			nn.NewDense("hidden2", nn.DenseConfig{In: 16, Out: 16}),
			activation("swish2", swishOf),
			nn.NewDense("out", nn.DenseConfig{In: 16, Out: 1}),
		}
	},
	loss:  nn.MeanSquaredError{},
	batch: curve(16),
	rate:  0.01,
}

// swishOf is x times the logistic function of x.
var swishOf = graph.Elementwise{
	Name: "swish",
	F:    func(x float64) float64 { return x * logistic(x) },
	Derivative: func(x float64) float64 {
		s := logistic(x)
		return s + x*s*(1-s)
	},
	FLOPs: 4,
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// activation is a layer that applies an element-wise op.
func activation(name string, f graph.Elementwise) nn.Layer {
	return nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		nn.WantTuple("activation", name, in, 1)
		return []*graph.Node{t.Map(f, in[0])}
	})
}

// gain is a layer that multiplies each of the columns by a parameter.
func gain(name string, columns int) nn.Layer {
	w := &nn.Param{Name: "gain", Shape: graph.Shape{columns}, Init: nn.Ones(), NoDecay: true}
	return nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		nn.WantTuple("gain", name, in, 1)
		return []*graph.Node{t.Mul(in[0], t.Repeat(t.Param(w), 0, in[0].Shape[0]))}
	}, w)
}
