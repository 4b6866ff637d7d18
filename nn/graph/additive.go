package graph

import "slices"

// AdditiveAttentionOp is attention whose scores are sums (Bahdanau et al. 2015, section
// 3.1 and appendix A.1.2): with queries q (b, tq, h), keys k (b, tk, h), a vector u (b, h)
// of each example and values v (b, tk, d),
//
//	s_ij = u · tanh(q_i + k_j),  o_i = Σ_j softmax_j(s_ij) v_j
//
// If Padded, a last input has lengths (b) int32: keys at and beyond a length are not seen;
// with a length of 0, o is 0. Outputs: o (b, tq, d) and the softmax (b, tq, tk). The
// tangents, which are h times as many, are not stored: the backward computes them again.
type AdditiveAttentionOp struct{ Padded bool }

// AdditiveAttention returns the sums of the values v that the queries q attend to by the
// keys k and the vector u; lengths may be nil.
func (g *Graph) AdditiveAttention(q, k, u, v, lengths *Node) *Node {
	in := []*Node{q, k, u, v}
	if lengths != nil {
		in = append(in, lengths)
	}
	return g.Apply(AdditiveAttentionOp{Padded: lengths != nil}, in...)[0]
}

func (AdditiveAttentionOp) Name() string { return "additive-attention" }

// Dims returns the sizes of a call with the inputs in.
func (AdditiveAttentionOp) Dims(in []*Node) (examples, queries, keys, hidden, values int) {
	q, k, v := in[0].Shape, in[1].Shape, in[3].Shape
	return q[0], q[1], k[1], q[2], v[2]
}

func (o AdditiveAttentionOp) Infer(in []*Node) []Type {
	const name = "additive-attention"
	wantFloat(name, in[:4]...)
	q, k, u, v := in[0], in[1], in[2], in[3]
	if len(q.Shape) != 3 || len(k.Shape) != 3 || len(u.Shape) != 2 || len(v.Shape) != 3 {
		misuse(name, "q %s, k %s, u %s and v %s, want (b, tq, h), (b, tk, h), (b, h) and (b, tk, d)", q, k, u, v)
	}
	b, tq, tk, h, d := o.Dims(in)
	if !slices.Equal(k.Shape, Shape{b, tk, h}) || !slices.Equal(u.Shape, Shape{b, h}) || !slices.Equal(v.Shape, Shape{b, tk, d}) {
		misuse(name, "q %s, k %s, u %s and v %s, want (b, tq, h), (b, tk, h), (b, h) and (b, tk, d)", q, k, u, v)
	}
	if o.Padded {
		if n := in[4]; n.DType != I32 || len(n.Shape) != 1 || n.Shape[0] != b {
			misuse(name, "lengths %s are not one int32 per example of %s", n, q)
		}
	}
	return []Type{{Shape{b, tq, d}, q.DType}, {Shape{b, tq, tk}, F32}}
}

func (o AdditiveAttentionOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	grads := make([]*Node, len(c.In))
	copy(grads, g.Apply(AdditiveAttentionGradOp{o}, append([]*Node{dout[0], c.Out[1]}, c.In...)...))
	return grads
}

// FLOPs counts both sums of products in full, padding included.
func (o AdditiveAttentionOp) FLOPs(c *Call) int64 { return o.flops(c.In) }

func (o AdditiveAttentionOp) flops(in []*Node) int64 {
	b, tq, tk, h, d := o.Dims(in)
	return 2 * int64(b) * int64(tq) * int64(tk) * int64(h+d)
}

// AdditiveAttentionGradOp takes do, the softmax and the inputs of the attention, and
// returns the gradients of q, k, u and v.
type AdditiveAttentionGradOp struct{ Of AdditiveAttentionOp }

func (AdditiveAttentionGradOp) Name() string { return "additive-attention-grad" }
func (AdditiveAttentionGradOp) Infer(in []*Node) []Type {
	var types []Type
	for _, n := range in[2:6] {
		types = append(types, Type{n.Shape, n.DType})
	}
	return types
}
func (AdditiveAttentionGradOp) Gradient(*Graph, *Call, []*Node) []*Node {
	return noGradient{}.Gradient(nil, nil, nil)
}

// FLOPs counts the gradients of both sums; the tangents that are computed again are not
// products.
func (o AdditiveAttentionGradOp) FLOPs(c *Call) int64 { return 2 * o.Of.flops(c.In[2:]) }
