package nn

import (
	"path"

	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
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

// Attention is multi-head scaled dot-product attention with its projections
// (Vaswani et al. 2017, section 3.2.2). Query, key and value projections are
// one product: their columns stand side by side in the order q, k, v, and
// within each the heads side by side.
type Attention struct {
	name   string
	config AttentionConfig
	qkv    *Dense // self-attention, (dim, 3*inner)
	q, kv  *Dense // cross attention, (dim, inner) and (dim, 2*inner)
	out    *Dense // (inner, dim)
}

// NewAttention returns a multi-head attention. Its parameters are weight and
// bias of name/qkv (name/q and name/kv in cross attention) and name/out.
func NewAttention(name string, c AttentionConfig) *Attention {
	wantPositive("attention", name, "Dim", c.Dim)
	wantPositive("attention", name, "Heads", c.Heads)
	if c.HeadDim == 0 {
		if c.Dim%c.Heads != 0 {
			misuse("attention", name, "%d heads do not divide Dim %d: set HeadDim", c.Heads, c.Dim)
		}
		c.HeadDim = c.Dim / c.Heads
	}
	wantPositive("attention", name, "HeadDim", c.HeadDim)

	inner := c.Heads * c.HeadDim
	project := func(which string, count int) *Dense {
		init := c.Init
		if init == nil {
			init = func(r *philox.Stream, _ graph.Shape, dst []float32) {
				uniform(r, glorotLimit(c.Dim, inner), dst)
			}
		}
		return NewDense(path.Join(name, which), DenseConfig{In: c.Dim, Out: count * inner, Init: init})
	}
	a := &Attention{name: name, config: c}
	if c.Cross {
		a.q, a.kv = project("q", 1), project("kv", 2)
	} else {
		a.qkv = project("qkv", 3)
	}
	a.out = NewDense(path.Join(name, "out"), DenseConfig{In: inner, Out: c.Dim, Init: c.Init})
	return a
}

func (a *Attention) Name() string { return a.name }

func (a *Attention) Params() []*Param {
	if a.config.Cross {
		return paramsOf(a.q, a.kv, a.out)
	}
	return paramsOf(a.qkv, a.out)
}

// Forward takes x (n, t, dim); then, in cross attention, the memory (n, t',
// dim); then, if padded, the keys' lengths (n) int32. It returns (n, t, dim).
func (a *Attention) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	c := a.config
	want := 1
	if c.Cross {
		want++
	}
	if c.Padded {
		want++
	}
	WantTuple("attention", a.name, in, want)

	op := graph.AttentionOp{Heads: c.Heads, HeadDim: c.HeadDim, Cross: c.Cross, Causal: c.Causal, Padded: c.Padded}
	var operands []*graph.Node
	if c.Cross {
		operands = append(operands, a.q.Forward(t, in[0])[0], a.kv.Forward(t, in[1])[0])
	} else {
		operands = append(operands, a.qkv.Forward(t, in[0])[0])
	}
	if c.Padded {
		operands = append(operands, in[len(in)-1])
	}
	return a.out.Forward(t, t.Attention(op, operands...))
}
