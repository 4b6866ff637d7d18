package graph

import (
	"math"

	"gpipebench/nn/graph/op"
)

// WeightedCrossEntropy returns the rows' losses times a weight other than 0,
// for a loss that is added to another.
func (g *Graph) WeightedCrossEntropy(logits, targets *Node, smoothing, weight float32) *Node {
	loss := g.apply1(op.CrossEntropy{Smoothing: smoothing, Weight: weight}, logits, targets)
	return g.Scale(loss, weight)
}

// CrossEntropyRanks returns the rows' losses, hits and targets' ranks.
func (g *Graph) CrossEntropyRanks(logits, targets *Node, smoothing float32) (loss, correct, ranks *Node) {
	out := g.apply(op.CrossEntropy{Smoothing: smoothing, Ranks: true}, logits, targets)
	return out[0], out[1], out[3]
}

// CrossEntropy returns the rows' losses and hits: softmax cross-entropy of logits (..., v) with
// targets (...) int32, and label smoothing (Szegedy et al. 2016). A negative target is masked.
func (g *Graph) CrossEntropy(logits, targets *Node, smoothing float32) (loss, correct *Node) {
	out := g.apply(op.CrossEntropy{Smoothing: smoothing}, logits, targets)
	return out[0], out[1]
}

// EndLoss ends a loss that was computed by other ops: rows has one loss for each
// row, such as an example (n) or a token (n, t), and 0 where a row is masked. It
// returns the same values, which are to be the first result of an nn.Loss.
//
// The run divides by the mini-batch's count, so rows are not averaged here: the
// step's loss is their sum in float64, in the order of the examples, divided by
// the count, whatever M is. What is computed from the result changes the loss
// that is reported, but no gradient.
func (g *Graph) EndLoss(rows *Node) *Node { return g.apply1(op.EndLoss{}, rows) }

func init() {
	define(func(o op.CrossEntropy) rules {
		return rules{
			name:     "cross-entropy",
			endsLoss: true,
			index: func(c *Call) Index {
				return Index{In: 1, What: "target", Least: math.MinInt32, Limit: c.In[0].Shape.Last()}
			},
			infer: func(in []*Node) []Type {
				logits, targets := in[0], in[1]
				wantFloat("cross-entropy", logits)
				if targets.DType != I32 || targets.Elems() != logits.Shape.Rows() {
					misuse("cross-entropy", "targets %s are not one int32 per row of %s", targets, logits)
				}
				if !(o.Smoothing >= 0 && o.Smoothing < 1) {
					misuse("cross-entropy", "label smoothing %v is not in [0,1)", o.Smoothing)
				}
				row := Type{Shape{logits.Shape.Rows()}, F32}
				if o.Ranks {
					return []Type{row, row, row, row}
				}
				return []Type{row, row, row}
			},
			gradient: func(g *Graph, c *Call, _ []*Node) []*Node {
				d := g.apply1(op.CrossEntropyGrad{Smoothing: o.Smoothing}, c.In[0], c.Out[2], c.In[1])
				if o.Weight != 0 {
					d = g.Scale(d, o.Weight)
				}
				return []*Node{d, nil}
			},
		}
	})
	define(func(op.CrossEntropyGrad) rules {
		return rules{name: "cross-entropy-grad", infer: sameAsFirst, inPlace: first}
	})
	define(func(op.EndLoss) rules {
		return rules{
			name:     "end-loss",
			endsLoss: true,
			infer: func(in []*Node) []Type {
				wantFloat("end-loss", in...)
				wantExamples("end-loss", in[0], 1)
				return []Type{{Shape{in[0].Elems()}, in[0].DType}}
			},
			gradient: func(g *Graph, c *Call, _ []*Node) []*Node {
				return []*Node{g.apply1(op.LossScale{}, c.In[0])}
			},
			inPlace: first,
		}
	})
	define(func(op.LossScale) rules { return rules{name: "loss-scale", infer: sameAsFirst, inPlace: first} })
}
