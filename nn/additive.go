package nn

import (
	"math"
	"path"

	"gpipebench/nn/graph"
)

// AdditiveAttentionConfig describes an additive attention.
type AdditiveAttentionConfig struct {
	Query  int         // width of the queries, at least 1
	Memory int         // width of what is attended to, at least 1
	Hidden int         // width of their projections, at least 1
	Padded bool        // the last input is a tensor of lengths: the memory at and beyond a length is not seen
	Init   Initializer // of both projections and of the vector; nil: GlorotUniform, and of the vector Uniform(Hidden^-0.5)
}

// NewAdditiveAttention returns an attention whose scores are sums (Bahdanau et al. 2015,
// appendix A.1.2), with a normalised vector (Salimans and Kingma 2016), as in GNMT's
// reference implementations:
//
//	s_ij = g v/‖v‖ · tanh(Wq q_i + b + Wk m_j),  o_i = Σ_j softmax_j(s_ij) m_j
//
// It takes queries (n, t, query), the memory (n, t', memory) and, if padded, the memory's
// lengths (n) int32, and returns (n, t, memory). Its parameters are name/query/weight and
// name/query/bias, name/memory/weight, name/vector (hidden), and name/scale (1), which is
// Hidden^-0.5 at first.
func NewAdditiveAttention(name string, c AdditiveAttentionConfig) (l Layer) {
	defer refused(&l, name)
	wantPositive("additive attention", name, "Query", c.Query)
	wantPositive("additive attention", name, "Memory", c.Memory)
	wantPositive("additive attention", name, "Hidden", c.Hidden)
	stddev := 1 / math.Sqrt(float64(c.Hidden))
	query := NewDense(path.Join(name, "query"), DenseConfig{In: c.Query, Out: c.Hidden, Init: c.Init})
	memory := NewDense(path.Join(name, "memory"), DenseConfig{In: c.Memory, Out: c.Hidden, NoBias: true, Init: c.Init})
	vector := &Param{Name: path.Join(name, "vector"), Shape: graph.Shape{c.Hidden}, Init: orInit(c.Init, Uniform(stddev))}
	scale := &Param{Name: path.Join(name, "scale"), Shape: graph.Shape{1}, Init: Constant(float32(stddev)), NoDecay: true}
	return Func(name, func(t *Trace, in ...*graph.Node) []*graph.Node {
		lengths := wantLengths("additive attention", name, in, 2, c.Padded)
		// Each example has a copy of v and of g, so that their gradients are sums over the
		// examples.
		n := in[0].Shape[0]
		v := t.Repeat(t.Param(vector), 0, n)
		norm := t.Exp(t.Scale(t.Log(t.Sum(t.Mul(v, v), 1)), -0.5)) // one over it
		g := t.Mul(norm, t.Sum(t.Repeat(t.Param(scale), 0, n), 1))
		u := t.Mul(v, t.Repeat(g, 1, c.Hidden))
		return []*graph.Node{t.AdditiveAttention(query.Forward(t, in[0])[0], memory.Forward(t, in[1])[0], u, in[1], lengths)}
	}, append(ParamsOf(query, memory), vector, scale)...)
}
