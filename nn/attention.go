package nn

import (
	"cmp"
	"path"
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// AttentionConfig describes a multi-head attention.
type AttentionConfig struct {
	Dim     int         // width of the model, at least 1
	Heads   int         // at least 1
	HeadDim int         // width of a head; 0: Dim/Heads, which must then divide
	Causal  bool        // query i sees keys 0..i only
	Padded  bool        // the last input is a tensor of lengths: keys at and beyond a length are not seen
	Cross   bool        // keys and values come from a second tensor
	Init    Initializer // of the weights; nil: GlorotUniform, with each projection's own fans
}

// NewAttention returns a multi-head scaled dot-product attention with its projections
// (Vaswani et al. 2017, section 3.2.2). Query, key and value projections are
// one product: their columns stand side by side in the order q, k, v, and
// within each the heads side by side.
//
// It takes x (n, t, dim); then, in cross attention, the memory (n, t', dim); then, if
// padded, the keys' lengths (n) int32. It returns (n, t, dim). Its parameters are weight
// and bias of name/qkv (name/q and name/kv in cross attention) and name/out.
func NewAttention(name string, c AttentionConfig) (l Layer) {
	defer refused(&l, name)
	wantPositive("attention", name, "Dim", c.Dim)
	wantPositive("attention", name, "Heads", c.Heads)
	c.HeadDim = headDim("attention", name, c.Dim, c.Heads, c.HeadDim)
	inner := c.Heads * c.HeadDim
	init := orInit(c.Init, glorot(c.Dim, inner))
	project := func(which string, count int) Layer {
		return NewDense(path.Join(name, which), DenseConfig{In: c.Dim, Out: count * inner, Init: init}).byColumns(count, c.Heads)
	}
	projections := []Layer{project("qkv", 3)} // of the tensors that come in
	if c.Cross {
		projections = []Layer{project("q", 1), project("kv", 2)}
	}
	out := NewDense(path.Join(name, "out"), DenseConfig{In: inner, Out: c.Dim, Init: c.Init}).byRows(c.Heads)
	attention := op.Attention{Heads: c.Heads, HeadDim: c.HeadDim, Cross: c.Cross, Causal: c.Causal, Padded: c.Padded}
	return Func(name, func(t *Trace, in ...*graph.Node) []*graph.Node {
		lengths := wantLengths("attention", name, in, len(projections), c.Padded)
		var operands []*graph.Node
		for i, p := range projections {
			operands = append(operands, p.Forward(t, in[i])...)
		}
		if lengths != nil {
			operands = append(operands, lengths)
		}
		return out.Forward(t, t.Attention(attention, operands...))
	}, ParamsOf(append(slices.Clip(projections), out)...)...)
}

// headDim is the width of a head, given that of the model, and its own or 0.
func headDim(kind, name string, dim, heads, own int) int {
	if own == 0 && dim%heads != 0 {
		misuse(kind, name, "%d heads do not divide Dim %d: set HeadDim", heads, dim)
	}
	own = cmp.Or(own, dim/heads)
	wantPositive(kind, name, "HeadDim", own)
	return own
}
