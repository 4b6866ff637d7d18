package graph

import "slices"

// EmbedOp looks tokens up: from table (v, d), ids (b, t) int32 and positions
// (t', d) with t' >= t it computes y (b, t, d) = table[id]*Scale +
// positions[i], where i is the token's index in its sequence.
type EmbedOp struct {
	noProducts
	Scale float32
}

// Embed returns the scaled embeddings of ids with the positions added.
func (g *Graph) Embed(table, ids, positions *Node, scale float32) *Node {
	return g.apply1(EmbedOp{Scale: scale}, table, ids, positions)
}

func (EmbedOp) Name() string { return "embed" }
func (EmbedOp) Index(c *Call) Index {
	return Index{In: 1, What: "token", Limit: c.In[0].Shape[0]}
}
func (EmbedOp) Infer(in []*Node) []Type {
	table, ids, pos := in[0], in[1], in[2]
	if len(table.Shape) != 2 || len(pos.Shape) != 2 || pos.Shape[1] != table.Shape[1] {
		misuse("embed", "table %s and positions %s differ in width", table, pos)
	}
	if ids.DType != I32 || len(ids.Shape) != 2 || ids.Shape[1] > pos.Shape[0] {
		misuse("embed", "ids %s are not int32 sequences of at most %d tokens", ids, pos.Shape[0])
	}
	return []Type{{append(slices.Clone(ids.Shape), table.Shape[1]), table.DType}}
}
func (o EmbedOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	return []*Node{g.apply1(EmbedGradOp{Vocab: c.In[0].Shape[0], Scale: o.Scale}, dout[0], c.In[1]), nil, nil}
}

// EmbedGradOp adds Scale*dy to the rows of its output (Vocab, d) that ids name,
// in token order; inputs dy, ids.
type EmbedGradOp struct {
	backwardOnly
	Vocab int
	Scale float32
}

func (EmbedGradOp) Name() string { return "embed-grad" }
func (o EmbedGradOp) Infer(in []*Node) []Type {
	return []Type{{Shape{o.Vocab, in[0].Shape.Last()}, in[0].DType}}
}
func (EmbedGradOp) Accumulates() {}
