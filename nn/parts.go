package nn

import (
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Parts says how T devices divide the operations of a stage. The zero value: they do not.
type Parts = op.Parts

// Divided makes a layer of one tensor one that T devices divide, l being what one of them has: the
// parts enter with the whole input, and their results are summands of the whole's. The bias of l,
// if it ends with one, is the same in all and counts once.
func Divided(p Parts, l Layer) Layer {
	if p.Count <= 1 {
		return l
	}
	return Func(l.Name(), func(t *Trace, in ...*graph.Node) []*graph.Node {
		WantTuple("divided", l.Name(), in, 1)
		return []*graph.Node{t.Leave(l.Forward(t, t.Enter(in[0], p, 0))[0], p)}
	}, l.Params()...)
}

// DividedEmbedding is an embedding of one of T devices, which has a T-th of the vocabulary: rows of
// tokens that others have are zeros, so the sum of all parts is the embedding.
func DividedEmbedding(p Parts, l Layer) Layer {
	if p.Count <= 1 {
		return l
	}
	return Func(l.Name(), func(t *Trace, in ...*graph.Node) []*graph.Node {
		return []*graph.Node{t.Leave(l.Forward(t, in...)[0], p)}
	}, l.Params()...)
}

// DividedSoftmax is a projection to the vocabulary of one of T devices, which has a T-th of the
// tokens. Its loss wants three numbers of each token from all parts: the largest logit, the sum of
// exponentials and the target's logit.
func DividedSoftmax(p Parts, l Layer) Layer {
	if p.Count <= 1 {
		return l
	}
	return Func(l.Name(), func(t *Trace, in ...*graph.Node) []*graph.Node {
		WantTuple("divided softmax", l.Name(), in, 1)
		return l.Forward(t, t.Enter(in[0], p, 3))
	}, l.Params()...)
}
