package main

import (
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// focal trains the network of lenet by a loss of its own.
var focal = network{name: "focal", layers: lenet.layers, loss: focalLoss{}, batch: lenet.batch, rate: lenet.rate}

// focalLoss is -(1-p)² log p of the probability p of the target, which counts
// examples less that are right already (Lin et al. 2017, equation 4, gamma 2). It is
// made of ops, so its gradient is derived.
type focalLoss struct{}

func (focalLoss) Loss(t *nn.Trace, out, targets []*graph.Node) []*graph.Node {
	nn.WantTuple("focal", "loss", out, 1)
	nn.WantTuple("focal", "loss", targets, 1)
	classes := out[0].Shape.Last()
	p := t.Sum(t.Mul(t.Softmax(out[0]), t.OneHot(targets[0], classes)), 1)
	miss := t.Shift(t.Scale(p, -1), 1)
	return []*graph.Node{t.EndLoss(t.Scale(t.Mul(t.Mul(miss, miss), t.Log(p)), -1))}
}
