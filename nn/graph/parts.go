package graph

import (
	"slices"

	"gpipebench/nn/graph/op"
)

// Enter is where x comes into an operation that the parts of a stage divide; Megatron-LM's f
// (Shoeybi et al., arXiv 1909.08053, section 3), or its g of sequence parallelism (Korthikanti et
// al., arXiv 2205.05198, section 4.2.2). [op.Enter] says what rows are.
func (g *Graph) Enter(x *Node, p op.Parts, rows int) *Node {
	return g.apply1(op.Enter{Parts: p, Rows: rows}, x)
}

// Leave is where a result leaves an operation that the parts of a stage divide: they add up their
// summands.
func (g *Graph) Leave(x *Node, p op.Parts) *Node { return g.apply1(op.Leave{Parts: p}, x) }

func init() {
	define(func(o op.Enter) rules {
		return rules{name: "enter", infer: gathered("enter", o.Parts), gradient: func(g *Graph, _ *Call, dout []*Node) []*Node {
			return []*Node{g.apply1(op.EnterGrad{Parts: o.Parts}, dout[0])}
		}}
	})
	define(func(o op.EnterGrad) rules { return rules{name: "enter-grad", infer: scattered("enter-grad", o.Parts)} })
	define(func(o op.Leave) rules {
		return rules{name: "leave", infer: scattered("leave", o.Parts), gradient: func(g *Graph, _ *Call, dout []*Node) []*Node {
			if !o.Sequence { // each part has the gradient
				return dout
			}
			return []*Node{g.apply1(op.LeaveGrad(o), dout[0])}
		}}
	})
	define(func(o op.LeaveGrad) rules { return rules{name: "leave-grad", infer: gathered("leave-grad", o.Parts)} })
}

// gathered infers the type of all tokens from those of a part.
func gathered(name string, p op.Parts) func(in []*Node) []Type {
	return func(in []*Node) []Type {
		shape := slices.Clone(tokens(name, in[0]))
		if p.Sequence {
			shape[1] *= p.Count
		}
		return []Type{{shape, in[0].DType}}
	}
}

// scattered infers the type of a part's tokens from those of all.
func scattered(name string, p op.Parts) func(in []*Node) []Type {
	return func(in []*Node) []Type {
		shape := slices.Clone(tokens(name, in[0]))
		if p.Sequence {
			if shape[1]%p.Count != 0 {
				misuse(name, "%d parts do not divide the tokens of %s", p.Count, in[0])
			}
			shape[1] /= p.Count
		}
		return []Type{{shape, in[0].DType}}
	}
}

func tokens(name string, x *Node) Shape {
	wantFloat(name, x)
	if len(x.Shape) < 3 {
		misuse(name, "%s: want (examples, tokens, ...)", x)
	}
	return x.Shape
}
