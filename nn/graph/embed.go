package graph

import (
	"slices"

	"gpipebench/nn/graph/op"
)

// Embed returns the scaled embeddings of ids (b, t) int32 with the positions (t', d), t' >= t,
// added: table (v, d) gives (b, t, d).
func (g *Graph) Embed(table, ids, positions *Node, scale float32) *Node {
	return g.apply1(op.Embed{Scale: scale}, table, ids, positions)
}

func init() {
	define(func(o op.Embed) rules {
		return rules{
			name:  "embed",
			index: func(c *Call) Index { return Index{In: 1, What: "token", Limit: c.In[0].Shape[0]} },
			infer: func(in []*Node) []Type {
				table, ids, pos := in[0], in[1], in[2]
				if len(table.Shape) != 2 || len(pos.Shape) != 2 || pos.Shape[1] != table.Shape[1] {
					misuse("embed", "table %s and positions %s differ in width", table, pos)
				}
				if ids.DType != I32 || len(ids.Shape) != 2 || ids.Shape[1] > pos.Shape[0] {
					misuse("embed", "ids %s are not int32 sequences of at most %d tokens", ids, pos.Shape[0])
				}
				return []Type{{append(slices.Clone(ids.Shape), table.Shape[1]), table.DType}}
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				return []*Node{g.apply1(op.EmbedGrad{Vocab: c.In[0].Shape[0], Scale: o.Scale}, dout[0], c.In[1]), nil, nil}
			},
		}
	})
	define(func(o op.EmbedGrad) rules {
		return rules{name: "embed-grad", accumulates: true, infer: func(in []*Node) []Type {
			return []Type{{Shape{o.Vocab, in[0].Shape.Last()}, in[0].DType}}
		}}
	})
}
