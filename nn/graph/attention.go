package graph

// AttentionOp is scaled dot-product attention with Heads heads of HeadDim each
// (Vaswani et al. 2017, section 3.2). The heads are side by side in a row, so
// nothing is permuted. Inputs:
//
//	self:  qkv (b, t, 3*Heads*HeadDim), the projections side by side
//	cross: q (b, tq, Heads*HeadDim), kv (b, tk, 2*Heads*HeadDim)
//
// and, if Padded, lengths (b) int32: keys at and beyond a length are not seen.
// Causal lets query i see keys 0..i. Outputs: o (b, tq, Heads*HeadDim), and lse
// (b, Heads, tq), the log-sum-exp of each row of scores, from which the
// backward computes the probabilities again instead of storing them (Dao et al.
// 2022, section 3.1).
type AttentionOp struct {
	Heads, HeadDim        int
	Cross, Causal, Padded bool
}

// Attention applies op to its inputs and returns o.
func (g *Graph) Attention(op AttentionOp, in ...*Node) *Node { return g.Apply(op, in...)[0] }

func (AttentionOp) Name() string { return "attention" }

// operands returns the inputs by name; kv is q in self-attention.
func (o AttentionOp) operands(in []*Node) (q, kv, lengths *Node) {
	q, kv, in = in[0], in[0], in[1:]
	if o.Cross {
		kv, in = in[0], in[1:]
	}
	if o.Padded {
		lengths = in[0]
	}
	return q, kv, lengths
}

// Dims returns the batch size and the numbers of queries and keys of a call
// with the inputs in.
func (o AttentionOp) Dims(in []*Node) (batch, queries, keys int) {
	q, kv, _ := o.operands(in)
	return q.Shape[0], q.Shape[1], kv.Shape[1]
}

func (o AttentionOp) Infer(in []*Node) []Type {
	want := 1
	if o.Cross {
		want++
	}
	if o.Padded {
		want++
	}
	if len(in) != want {
		misuse("attention", "%d inputs where %d are needed", len(in), want)
	}
	q, kv, lengths := o.operands(in)
	inner := o.Heads * o.HeadDim
	if o.Cross {
		if len(q.Shape) != 3 || q.Shape[2] != inner || len(kv.Shape) != 3 || kv.Shape[2] != 2*inner || q.Shape[0] != kv.Shape[0] {
			misuse("attention", "q %s and kv %s do not hold %d heads of %d", q, kv, o.Heads, o.HeadDim)
		}
	} else if len(q.Shape) != 3 || q.Shape[2] != 3*inner {
		misuse("attention", "qkv %s does not hold 3 x %d heads of %d", q, o.Heads, o.HeadDim)
	}
	wantFloat("attention", q, kv)
	if lengths != nil && (lengths.DType != I32 || len(lengths.Shape) != 1 || lengths.Shape[0] != q.Shape[0]) {
		misuse("attention", "lengths %s are not one int32 per example of %s", lengths, q)
	}
	b, t := q.Shape[0], q.Shape[1]
	return []Type{{Shape{b, t, inner}, q.DType}, {Shape{b, o.Heads, t}, F32}}
}

func (o AttentionOp) Gradient(g *Graph, c *Call, dout []*Node) []*Node {
	in := append([]*Node{dout[0], c.Out[0], c.Out[1]}, c.In...)
	d := g.Apply(AttentionGradOp{o}, in...)
	grads := make([]*Node, len(c.In))
	copy(grads, d)
	return grads
}

// FLOPs counts both products in full, as is the custom, although with a causal
// mask the kernel skips half of them.
func (o AttentionOp) FLOPs(c *Call) int64 {
	b, tq, tk := o.Dims(c.In)
	return 4 * int64(b) * int64(tq) * int64(tk) * int64(o.Heads*o.HeadDim)
}

// Hidden describes the scores.
func (o AttentionOp) Hidden(c *Call) (s Shape, flopsEach float64) {
	b, tq, tk := o.Dims(c.In)
	return Shape{b, o.Heads, tq, tk}, 4 * float64(o.HeadDim)
}

// AttentionGradOp takes do, o, lse and the inputs of the attention, and returns
// the gradients of its floating-point inputs.
type AttentionGradOp struct{ AttentionOp }

func (AttentionGradOp) Name() string { return "attention-grad" }
func (o AttentionGradOp) Infer(in []*Node) []Type {
	q, kv, _ := o.operands(in[3:])
	if o.Cross {
		return []Type{{q.Shape, q.DType}, {kv.Shape, kv.DType}}
	}
	return []Type{{q.Shape, q.DType}}
}
func (AttentionGradOp) Gradient(*Graph, *Call, []*Node) []*Node {
	return noGradient{}.Gradient(nil, nil, nil)
}

// FLOPs counts the four products of the gradient. The kernel's recomputation of
// the scores is not counted.
func (o AttentionGradOp) FLOPs(c *Call) int64 {
	b, tq, tk := o.Dims(c.In[3:])
	return 8 * int64(b) * int64(tq) * int64(tk) * int64(o.Heads*o.HeadDim)
}
