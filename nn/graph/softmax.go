package graph

import "gpipebench/nn/graph/op"

// Softmax returns the softmax over the last axis of x: exp(x) divided by the row's sum of them.
// A loss of class labels is cheaper and more exact with [Graph.CrossEntropy], which takes logits.
func (g *Graph) Softmax(x *Node) *Node { return g.apply1(op.Softmax{}, x) }

func init() {
	define(func(op.Softmax) rules {
		r := unary("softmax", ofOutput(op.SoftmaxGrad{}))
		r.infer = func(in []*Node) []Type {
			wantFloat("softmax", in...)
			wantExamples("softmax", in[0], 2)
			return sameAs(in[0])
		}
		return r
	})
	define(func(op.SoftmaxGrad) rules { return rules{name: "softmax-grad", infer: sameAsFirst, inPlace: first} })
}
