package program

import (
	"math"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

func init() {
	of := func(o op.Attention, in []*graph.Node) product {
		queries, keys := in[0].Shape[1], in[o.Keys()].Shape[1]
		return product{"attention", min(o.HeadDim, queries, keys), []int{o.HeadDim, keys},
			Dims{Count: in[0].Shape[0] * o.Heads, M: queries, N: keys, K: o.HeadDim, Causal: o.Causal}}
	}
	register(func(o op.Attention, c *graph.Call) traits {
		return traits{
			product: of(o, c.In),
			kernel:  func(*step, bool, int) (kernelFunc, int) { return lowerAttention(o, c.In) },
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.attention(o, c.In) },
		}
	})
	// The inputs do, o, lse precede those of the attention.
	register(func(o op.AttentionGrad, c *graph.Call) traits {
		return traits{
			product: of(o.Attention, c.In[3:]),
			kernel:  func(*step, bool, int) (kernelFunc, int) { return lowerAttentionGrad(o.Attention, c.In[3:]) },
			blocks:  func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.attentionGrad(o.Attention, c.In[3:]) },
		}
	})
}

// scores reports whether n is stored as an attention's probabilities, and how many
// keys a row of them has.
func (s *storage) scores(n *graph.Node) (keys int, ok bool) {
	if !s.KeepScores || n.Index != 1 || n.Call == nil {
		return 0, false
	}
	o, ok := n.Call.Op.(op.Attention)
	if ok {
		keys = n.Call.In[o.Keys()].Shape[1]
	}
	return keys, ok
}

// heads describes the places of an attention's heads in its operands.
type heads struct {
	shape      kernel.AttentionShape
	batch      int
	count, dim int
	cross      bool
	padded     bool
}

func newHeads(o op.Attention, in []*graph.Node) heads {
	q, tk := in[0].Shape, in[o.Keys()].Shape[1]
	inner := o.Heads * o.HeadDim
	qs, kvs := 3*inner, 3*inner
	if o.Cross {
		qs, kvs = inner, 2*inner
	}
	return heads{
		shape: kernel.AttentionShape{
			Queries: q[1], Keys: tk, HeadDim: o.HeadDim,
			QStride: qs, KStride: kvs, VStride: kvs, OStride: inner,
			Causal: o.Causal, Valid: tk,
			Scale: float32(1 / math.Sqrt(float64(o.HeadDim))),
		},
		batch: q[0], count: o.Heads, dim: o.HeadDim, cross: o.Cross, padded: o.Padded,
	}
}

// at returns the operands of head h of example b: q, k and v from qkv, or from
// q and kv; in are the attention's inputs (or their gradients).
func (hs *heads) at(in [][]float32, b, h int) (q, k, v []float32) {
	kv, qFrom, kFrom, vFrom := hs.places(b, h)
	return in[0][qFrom:], in[kv][kFrom:], in[kv][vFrom:]
}

// places returns where head h of example b begins: q in the first input, k and v in
// input kv.
func (hs *heads) places(b, h int) (kv, q, k, v int) {
	s, inner, off := &hs.shape, hs.count*hs.dim, h*hs.dim
	q = b*s.Queries*s.QStride + off
	if hs.cross {
		k = b*s.Keys*s.KStride + off
		return 1, q, k, k + inner
	}
	return 0, q, q + inner, q + 2*inner
}

// valid returns the number of keys of example b.
func (hs *heads) valid(in [][]float32, b int) int {
	if !hs.padded {
		return hs.shape.Keys
	}
	return max(0, min(hs.shape.Keys, int(ints(in[len(in)-1])[b])))
}

func lowerAttention(o op.Attention, in []*graph.Node) (kernelFunc, int) {
	hs := newHeads(o, in)
	return func(w *worker, in, out [][]float32, part, parts int) {
		s := hs.shape
		from, to := share(hs.batch*hs.count, part, parts, 1)
		for i := from; i < to; i++ {
			b, h := i/hs.count, i%hs.count
			q, k, v := hs.at(in, b, h)
			s.Valid = hs.valid(in, b)
			o := out[0][b*s.Queries*s.OStride+h*hs.dim:]
			kernel.Attention(s, o, out[1][i*s.Queries:(i+1)*s.Queries], q, k, v, w.scratch)
		}
	}, hs.shape.Scratch()
}

func lowerAttentionGrad(o op.Attention, in []*graph.Node) (kernelFunc, int) {
	hs := newHeads(o, in)
	return func(w *worker, in, out [][]float32, part, parts int) {
		s := hs.shape
		from, to := share(hs.batch*hs.count, part, parts, 1)
		for i := from; i < to; i++ {
			b, h := i/hs.count, i%hs.count
			q, k, v := hs.at(in[3:], b, h)
			dq, dk, dv := hs.at(out, b, h)
			s.Valid = hs.valid(in[3:], b)
			rows := b*s.Queries*s.OStride + h*hs.dim
			kernel.AttentionGrad(s, dq, dk, dv, in[0][rows:], q, k, v, in[1][rows:], in[2][i*s.Queries:(i+1)*s.Queries], w.scratch)
		}
	}, hs.shape.GradScratch()
}

// attention lowers an attention head by head, with rows of its own.
func (k *conversion) attention(o op.Attention, in []*graph.Node) (kernelFunc, int) {
	hs := newHeads(o, in)
	s, compact, own := hs.shape, hs.compact(), hs.shape.Scratch()
	q, kv := s.Queries*hs.dim, s.Keys*hs.dim
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(hs.batch*hs.count, part, parts, 1)
		buffers := cutFloats(w.scratch[own:], q, kv, kv, q)
		for i := from; i < to; i++ {
			b, h := i/hs.count, i%hs.count
			hs.load(k.in, in, b, h, buffers[:3])
			shape := compact
			shape.Valid = hs.valid(in, b)
			kernel.Attention(shape, buffers[3], out[1][i*s.Queries:(i+1)*s.Queries], buffers[0], buffers[1], buffers[2], w.scratch[:own])
			k.out[0].storeRows(out[0], b*s.Queries*s.OStride+h*hs.dim, buffers[3], s.Queries, hs.dim, s.OStride)
		}
	}, own + 2*q + 2*kv
}

// attentionGrad is attention for the gradient: the inputs do, o, lse precede those of
// the attention.
func (k *conversion) attentionGrad(o op.Attention, in []*graph.Node) (kernelFunc, int) {
	hs := newHeads(o, in)
	s, compact, own := hs.shape, hs.compact(), hs.shape.GradScratch()
	q, kv := s.Queries*hs.dim, s.Keys*hs.dim
	return func(w *worker, in, out [][]float32, part, parts int) {
		from, to := share(hs.batch*hs.count, part, parts, 1)
		x := cutFloats(w.scratch[own:], q, kv, kv, q, kv, kv, q, q)
		for i := from; i < to; i++ {
			b, h := i/hs.count, i%hs.count
			hs.load(k.in[3:], in[3:], b, h, x[:3])
			rows := b*s.Queries*s.OStride + h*hs.dim
			k.in[0].loadRows(x[6], in[0], rows, s.Queries, hs.dim, s.OStride)
			k.in[1].loadRows(x[7], in[1], rows, s.Queries, hs.dim, s.OStride)
			shape := compact
			shape.Valid = hs.valid(in[3:], b)
			kernel.AttentionGrad(shape, x[3], x[4], x[5], x[6], x[0], x[1], x[2], x[7], in[2][i*s.Queries:(i+1)*s.Queries], w.scratch[:own])
			other, qAt, kAt, vAt := hs.places(b, h)
			k.out[0].storeRows(out[0], qAt, x[3], s.Queries, hs.dim, s.QStride)
			k.out[other].storeRows(out[other], kAt, x[4], s.Keys, hs.dim, s.KStride)
			k.out[other].storeRows(out[other], vAt, x[5], s.Keys, hs.dim, s.VStride)
		}
	}, own + 4*q + 4*kv
}

// compact is the shape of a head whose rows are side by side.
func (hs *heads) compact() kernel.AttentionShape {
	s := hs.shape
	s.QStride, s.KStride, s.VStride, s.OStride = hs.dim, hs.dim, hs.dim, hs.dim
	return s
}

// load sets x to q, k and v of head h of example b.
func (hs *heads) load(forms []form, in [][]float32, b, h int, x [][]float32) {
	s := &hs.shape
	kv, q, k, v := hs.places(b, h)
	forms[0].loadRows(x[0], in[0], q, s.Queries, hs.dim, s.QStride)
	forms[kv].loadRows(x[1], in[kv], k, s.Keys, hs.dim, s.KStride)
	forms[kv].loadRows(x[2], in[kv], v, s.Keys, hs.dim, s.VStride)
}
