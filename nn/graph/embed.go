package graph

import (
	"slices"

	"gpipebench/nn/graph/op"
)

// Embed returns the scaled embeddings of ids (b, t) int32 with the positions (t', d), t' >= t,
// added: table (v, d) gives (b, t, d). Positions may be nil: there are none.
func (g *Graph) Embed(table, ids, positions *Node, scale float32) *Node {
	in := []*Node{table, ids}
	if positions != nil {
		in = append(in, positions)
	}
	return g.apply1(op.Embed{Scale: scale}, in...)
}

func init() {
	define(func(o op.Embed) rules {
		return rules{
			name:  "embed",
			index: func(c *Call) Index { return Index{In: 1, What: "token", Limit: c.In[0].Shape[0]} },
			infer: func(in []*Node) []Type {
				table, ids := in[0], in[1]
				if len(table.Shape) != 2 || ids.DType != I32 || len(ids.Shape) != 2 {
					misuse("embed", "table %s and ids %s, want (v, d) and int32 sequences (b, t)", table, ids)
				}
				if len(in) > 2 {
					wantPositions("embed", in[2], table.Shape[1], ids)
				}
				return []Type{{append(slices.Clone(ids.Shape), table.Shape[1]), table.DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				grads := make([]*Node, len(c.In))
				grads[0] = g.apply1(op.EmbedGrad{Vocab: c.In[0].Shape[0], Scale: o.Scale}, dout[0], c.In[1])
				return grads
			},
		}
	})
	define(func(o op.EmbedGrad) rules {
		return rules{name: "embed-grad", accumulates: true, infer: func(in []*Node) []Type {
			return []Type{{Shape{o.Vocab, in[0].Shape.Last()}, in[0].DType}}
		}}
	})
}

// wantPositions checks a table (t', width) for sequences x (b, t, ...) of at most t' tokens.
func wantPositions(name string, table *Node, width int, x *Node) {
	if len(table.Shape) != 2 || table.Shape[1] != width {
		misuse(name, "positions %s, want rows of %d", table, width)
	}
	if x.Shape[1] > table.Shape[0] {
		misuse(name, "%s has sequences of more than %d tokens", x, table.Shape[0])
	}
}
