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

// sublayer is one pre-norm residual branch,
//
//	x = x + dropout(branch(norm(x), its further inputs))
//
// where x is one member of the tuple; the others are passed on unchanged.
type sublayer struct {
	moves   member   // x
	reads   []member // further inputs of the branch, after norm(x)
	norm    *nn.LayerNorm
	branch  nn.Layer
	dropout *nn.Dropout
}

func (s *sublayer) Name() string { return "" } // its parts have names

func (s *sublayer) Params() []*nn.Param { return append(s.norm.Params(), s.branch.Params()...) }

// Forward takes the tuple and returns it with the new x.
func (s *sublayer) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	x := in[s.moves]
	h := s.norm.Forward(t, x)
	for _, m := range s.reads {
		h = append(h, in[m])
	}
	h = s.branch.Forward(t, h...)
	h = s.dropout.Forward(t, h...)
	out := slices.Clone(in)
	out[s.moves] = t.Add(x, h[0])
	return out
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
type pick member

func (pick) Name() string        { return "" }
func (pick) Params() []*nn.Param { return nil }

func (p pick) Forward(_ *nn.Trace, in ...*graph.Node) []*graph.Node { return in[p : p+1] }
