package nn

import (
	"cmp"
	"fmt"
	"path"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/philox"
)

// GroupedAttentionConfig describes an attention whose heads of keys and values are fewer than its
// heads of queries, with rotary positions.
type GroupedAttentionConfig struct {
	Dim     int         // width of the model, at least 1
	Heads   int         // of queries, at least 1
	KVHeads int         // of keys and of values, a divisor of Heads; 0: Heads
	HeadDim int         // width of a head, even; 0: Dim/Heads, which must then divide
	Causal  bool        // query i sees keys 0..i only
	Angles  *Param      // by which queries and keys are rotated: see [NewRotaryAngles]
	Init    Initializer // of the weights; nil: GlorotUniform
}

// NewGroupedAttention returns a grouped-query self-attention with its projections (Ainslie et al.
// 2023), which have no biases: Heads/KVHeads consecutive heads of queries share a head of keys and
// values. Queries and keys are rotated by their positions (Su et al. 2021) in halves: see
// [op.Rotary].
//
// It takes x (n, t, dim), with t at most the positions of the angles, and returns (n, t, dim). Its
// parameters are weights (out, in): name/q/weight, name/k/weight, name/v/weight and
// name/out/weight, each with its heads one after another, and the angles.
func NewGroupedAttention(name string, c GroupedAttentionConfig) (l Layer) {
	const kind = "grouped attention"
	defer refused(&l, name)
	wantPositive(kind, name, "Dim", c.Dim)
	wantPositive(kind, name, "Heads", c.Heads)
	c.KVHeads = cmp.Or(c.KVHeads, c.Heads)
	wantPositive(kind, name, "KVHeads", c.KVHeads)
	if c.Heads%c.KVHeads != 0 {
		misuse(kind, name, "KVHeads is %d, want a divisor of %d heads", c.KVHeads, c.Heads)
	}
	c.HeadDim = headDim(kind, name, c.Dim, c.Heads, c.HeadDim)
	if c.Angles == nil {
		misuse(kind, name, "no Angles: want those of NewRotaryAngles")
	}

	dense := func(part string, in, out int) *Dense {
		return NewDense(path.Join(name, part), DenseConfig{In: in, Out: out, Transposed: true, NoBias: true, Init: c.Init})
	}
	inner, shared := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	columns := func(part string, width int) *Dense { return dense(part, c.Dim, width).byColumns(1, c.KVHeads) }
	q, k, v := columns("q", inner), columns("k", shared), columns("v", shared)
	out := dense("out", inner, c.Dim).byRows(c.KVHeads)
	attention := op.Attention{Heads: c.Heads, HeadDim: c.HeadDim, KVHeads: c.KVHeads, Causal: c.Causal}
	return Func(name, func(t *Trace, in ...*graph.Node) []*graph.Node {
		WantTuple(kind, name, in, 1)
		angles := t.Param(c.Angles)
		rotated := func(d *Dense) *graph.Node { return t.Rotary(d.Forward(t, in[0])[0], angles, c.HeadDim) }
		return out.Forward(t, t.Attention(attention, rotated(q), rotated(k), v.Forward(t, in[0])[0]))
	}, append(ParamsOf(q, k, v, out), c.Angles)...)
}

// NewRotaryAngles returns the table (seqLen, headDim) of rotary positions, for heads of an even
// width, which layers may share: row p has the cosines of p/theta^(2j/headDim) for
// 0 <= j < headDim/2, then the sines (Su et al. 2021, section 3.2.2; theta is 10,000 there). Its
// name has theta, so that networks with others differ in their fingerprints.
func NewRotaryAngles(name string, theta float64, seqLen, headDim int) *Param {
	return &Param{
		Name: fmt.Sprintf("%s-%v", name, theta), Shape: graph.Shape{seqLen, headDim}, Frozen: true,
		Init: func(_ *philox.Stream, _ graph.Shape, dst []float32) {
			half := headDim / 2
			for j := range half {
				frequency := exactmath.Pow(theta, -float64(2*j)/float64(headDim))
				for p := range seqLen {
					angle := float64(float64(p) * frequency)
					dst[p*headDim+j] = float32(exactmath.Cos(angle))
					dst[p*headDim+half+j] = float32(exactmath.Sin(angle))
				}
			}
		},
	}
}
