package graph

import (
	"slices"

	"gpipebench/nn/graph/op"
)

// Attention returns the output o of scaled dot-product attention, whose inputs [op.Attention]
// lists.
func (g *Graph) Attention(o op.Attention, in ...*Node) *Node { return g.apply1(o, in...) }

// Rotary returns the rows of x (b, t, n*headDim), whose heads of headDim are side by side, with
// pairs of elements rotated by angles of the row's position, which table (t', headDim) has: see
// [op.Rotary].
func (g *Graph) Rotary(x, table *Node, headDim int) *Node {
	return g.apply1(op.Rotary{HeadDim: headDim}, x, table)
}

// AdditiveAttention returns the sums of the values v (b, tk, d) that the queries q (b, tq, h)
// attend to by the keys k (b, tk, h) and the vector u (b, h): (b, tq, d). Lengths (b) int32, of
// the keys, may be nil. The formulas are with [op.AdditiveAttention].
func (g *Graph) AdditiveAttention(q, k, u, v, lengths *Node) *Node {
	in := []*Node{q, k, u, v}
	if lengths != nil {
		in = append(in, lengths)
	}
	return g.apply1(op.AdditiveAttention{Padded: lengths != nil}, in...)
}

func init() {
	define(func(o op.Attention) rules {
		return rules{
			name:  "attention",
			infer: func(in []*Node) []Type { return attended(o, in) },
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				grads := make([]*Node, len(c.In))
				in := append([]*Node{dout[0], c.Out[0], c.Out[1]}, c.In...)
				copy(grads, g.apply(op.AttentionGrad{Attention: o}, in...))
				return grads
			},
			// Both products are counted in full, as is the custom, although with a causal
			// mask the kernel skips half of them.
			flops: func(c *Call) int64 { return 4 * attentionProducts(o, c.In) },
			// The scores.
			hidden: func(c *Call) (s Shape, flopsEach float64) {
				q, keys := c.In[0].Shape, c.In[o.Keys()].Shape[1]
				return Shape{q[0], o.Heads, q[1], keys}, 4 * float64(o.HeadDim)
			},
		}
	})
	define(func(o op.AttentionGrad) rules {
		return rules{
			name: "attention-grad",
			infer: func(in []*Node) []Type {
				return typesOf(in[3 : 3+o.Values()+1])
			},
			// The four products of the gradient. The kernel's recomputation of the scores is
			// not counted.
			flops: func(c *Call) int64 { return 8 * attentionProducts(o.Attention, c.In[3:]) },
		}
	})

	define(func(o op.Rotary) rules {
		return rules{
			name: "rotary",
			infer: func(in []*Node) []Type {
				x := in[0]
				wantFloat("rotary", in...)
				if len(x.Shape) != 3 || o.HeadDim < 2 || o.HeadDim%2 != 0 || x.Shape[2]%o.HeadDim != 0 {
					misuse("rotary", "%s and heads of %d, want (b, t, n*heads) and an even head", x, o.HeadDim)
				}
				wantPositions("rotary", in[1], o.HeadDim, x)
				return sameAs(x)
			},
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				return []*Node{g.apply1(op.Rotary{HeadDim: o.HeadDim, Inverse: !o.Inverse}, dout[0], c.In[1]), nil}
			},
			inPlace: first,
		}
	})

	define(func(o op.AdditiveAttention) rules {
		return rules{
			name:  "additive-attention",
			infer: func(in []*Node) []Type { return additivelyAttended(o, in) },
			gradient: func(g *Graph, c *Call, dout []*Node) []*Node {
				grads := make([]*Node, len(c.In))
				in := append([]*Node{dout[0], c.Out[1]}, c.In...)
				copy(grads, g.apply(op.AdditiveAttentionGrad{Of: o}, in...))
				return grads
			},
			// Both sums of products are counted in full, padding included.
			flops: func(c *Call) int64 { return additiveFLOPs(c.In) },
		}
	})
	define(func(o op.AdditiveAttentionGrad) rules {
		return rules{
			name:  "additive-attention-grad",
			infer: func(in []*Node) []Type { return typesOf(in[2:6]) },
			// The gradients of both sums; the tangents that are computed again are not products.
			flops: func(c *Call) int64 { return 2 * additiveFLOPs(c.In[2:]) },
		}
	})
}

// attentionProducts returns the number of products of one sum over all scores.
func attentionProducts(o op.Attention, in []*Node) int64 {
	q, keys := in[0].Shape, in[o.Keys()].Shape[1]
	return int64(q[0]) * int64(q[1]) * int64(keys) * int64(o.Heads*o.HeadDim)
}

func attended(o op.Attention, in []*Node) []Type {
	const name = "attention"
	want := o.Values() + 1
	if o.Padded {
		want++
	}
	if len(in) != want {
		misuse(name, "%d inputs where %d are needed", len(in), want)
	}
	q, kv := in[0], in[o.Keys()]
	inner := o.Heads * o.HeadDim
	switch {
	case o.KVHeads > 0:
		v, width := in[o.Values()], o.KVHeads*o.HeadDim
		if o.Cross || o.Heads%o.KVHeads != 0 {
			misuse(name, "%d heads of keys, want a divisor of %d heads, and no Cross", o.KVHeads, o.Heads)
		}
		if len(q.Shape) != 3 || q.Shape[2] != inner || len(kv.Shape) != 3 || kv.Shape[2] != width ||
			q.Shape[0] != kv.Shape[0] || !slices.Equal(kv.Shape, v.Shape) {
			misuse(name, "q %s, k %s and v %s do not hold %d and %d heads of %d", q, kv, v, o.Heads, o.KVHeads, o.HeadDim)
		}
		wantFloat(name, v)
	case o.Cross:
		if len(q.Shape) != 3 || q.Shape[2] != inner || len(kv.Shape) != 3 || kv.Shape[2] != 2*inner || q.Shape[0] != kv.Shape[0] {
			misuse(name, "q %s and kv %s do not hold %d heads of %d", q, kv, o.Heads, o.HeadDim)
		}
	case len(q.Shape) != 3 || q.Shape[2] != 3*inner:
		misuse(name, "qkv %s does not hold 3 x %d heads of %d", q, o.Heads, o.HeadDim)
	}
	wantFloat(name, q, kv)
	if o.Padded {
		wantLengths(name, in[want-1], q)
	}
	b, t := q.Shape[0], q.Shape[1]
	return []Type{{Shape{b, t, inner}, q.DType}, {Shape{b, o.Heads, t}, F32}}
}

func additivelyAttended(o op.AdditiveAttention, in []*Node) []Type {
	const name = "additive-attention"
	wantFloat(name, in[:4]...)
	q, k, u, v := in[0], in[1], in[2], in[3]
	fits := len(q.Shape) == 3 && len(k.Shape) == 3 && len(u.Shape) == 2 && len(v.Shape) == 3
	if fits {
		b, h, tk := q.Shape[0], q.Shape[2], k.Shape[1]
		fits = slices.Equal(k.Shape, Shape{b, tk, h}) && slices.Equal(u.Shape, Shape{b, h}) && slices.Equal(v.Shape[:2], Shape{b, tk})
	}
	if !fits {
		misuse(name, "q %s, k %s, u %s and v %s, want (b, tq, h), (b, tk, h), (b, h) and (b, tk, d)", q, k, u, v)
	}
	if o.Padded {
		wantLengths(name, in[4], q)
	}
	return []Type{{q.Shape.With(v.Shape[2]), q.DType}, {q.Shape.With(k.Shape[1]), F32}}
}

// additiveFLOPs counts the products with u and with v, for each query and key.
func additiveFLOPs(in []*Node) int64 {
	q, v := in[0].Shape, in[3].Shape
	return 2 * int64(q[0]) * int64(q[1]) * int64(v[1]) * int64(q[2]+v[2])
}

// wantLengths checks the lengths of x's examples.
func wantLengths(name string, lengths, x *Node) {
	if lengths.DType != I32 || len(lengths.Shape) != 1 || lengths.Shape[0] != x.Shape[0] {
		misuse(name, "lengths %s are not one int32 per example of %s", lengths, x)
	}
}
