package transformer

import (
	"slices"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// member is an index into the tuple that layers of a translation model pass on.
type member int

const (
	source  member = iota // (n, s, dim): the encoder's states
	lengths               // (n) int32: of the sources
	target                // (n, t, dim): the decoder's states
)

// residual makes one pre-norm residual branch,
//
//	x = x + dropout(branch(norm(x), its further inputs))
//
// where x is one member of the tuple, moves, and reads are the further inputs; the other
// members are passed on unchanged. It has the branch's name.
func residual(moves member, norm *nn.LayerNorm, branch nn.Layer, dropout *nn.Dropout, reads ...member) nn.Layer {
	return nn.Func(branch.Name(), func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		x := in[moves]
		h := norm.Forward(t, x)
		for _, m := range reads {
			h = append(h, in[m])
		}
		h = dropout.Forward(t, branch.Forward(t, h...)...)
		out := slices.Clone(in)
		out[moves] = t.Add(x, h[0])
		return out
	}, nn.ParamsOf(norm, branch)...)
}

// on is a layer of one member of the tuple; the others are passed on unchanged.
type on struct {
	member
	nn.Layer
}

func (o on) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	out := slices.Clone(in)
	out[o.member] = o.Layer.Forward(t, in[o.member])[0]
	return out
}

// pick is a layer that returns only one member of the tuple.
func pick(m member) nn.Layer {
	return nn.Func("", func(_ *nn.Trace, in ...*graph.Node) []*graph.Node { return in[m : m+1] })
}
