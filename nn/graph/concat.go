package graph

import (
	"slices"

	"gpipebench/nn/graph/op"
)

// Concat joins tensors that agree in all dimensions but the last, at most 8.
func (g *Graph) Concat(in ...*Node) *Node { return g.apply1(op.Concat{}, in...) }

// Slice returns the columns from <= j < to of x's last dimension.
func (g *Graph) Slice(x *Node, from, to int) *Node { return g.apply1(op.Slice{From: from, To: to}, x) }

// Pad returns x with columns of zeros on both sides.
func (g *Graph) Pad(x *Node, before, after int) *Node {
	return g.apply1(op.Pad{Before: before, After: after}, x)
}

func init() {
	define(func(op.Concat) rules {
		return rules{
			name: "concat",
			infer: func(in []*Node) []Type {
				if len(in) < 1 || len(in) > 8 {
					misuse("concat", "%d inputs, want 1 to 8", len(in))
				}
				wantFloat("concat", in...)
				first, width := in[0], 0
				for _, n := range in {
					if !slices.Equal(n.Shape.With(0), first.Shape.With(0)) || n.DType != first.DType {
						misuse("concat", "inputs %s and %s differ in more than the last dimension", first, n)
					}
					width += n.Shape.Last()
				}
				return []Type{{first.Shape.With(width), first.DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				from := 0
				var din []*Node
				for _, n := range c.In {
					to := from + n.Shape.Last()
					din = append(din, g.Slice(dout[0], from, to))
					from = to
				}
				return din
			},
		}
	})
	define(func(o op.Slice) rules {
		return rules{
			name: "slice",
			infer: func(in []*Node) []Type {
				wantFloat("slice", in...)
				if o.From < 0 || o.To <= o.From || o.To > in[0].Shape.Last() {
					misuse("slice", "columns [%d, %d) of %s", o.From, o.To, in[0])
				}
				return []Type{{in[0].Shape.With(o.To - o.From), in[0].DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				return []*Node{g.Pad(dout[0], o.From, c.In[0].Shape.Last()-o.To)}
			},
		}
	})
	define(func(o op.Pad) rules {
		return rules{
			name: "pad",
			infer: func(in []*Node) []Type {
				wantFloat("pad", in...)
				if o.Before < 0 || o.After < 0 {
					misuse("pad", "%d and %d columns", o.Before, o.After)
				}
				return []Type{{in[0].Shape.With(o.Before + in[0].Shape.Last() + o.After), in[0].DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				return []*Node{g.Slice(dout[0], o.Before, o.Before+c.In[0].Shape.Last())}
			},
		}
	})
}
