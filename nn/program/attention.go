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
	register(func(o op.Rotary, c *graph.Call) traits {
		rows, cols := matrix(c.In[0])
		time, sign := c.In[0].Shape[1], float32(1)
		if o.Inverse {
			sign = -1
		}
		return traits{elementwise: true, rows: &byRow{rows: rows, in: []int{cols, 0}, out: []int{cols}, run: func(b stretch) {
			kernel.Rotary(b.out[0], b.in[0], b.in[1], b.n, cols, o.HeadDim, b.first, time, sign)
		}}}
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
	shape        kernel.AttentionShape
	batch        int
	count, dim   int
	sharing      int // consecutive heads that share a head of keys and values
	keys, values int // indices of their inputs
	keysFrom     int // columns of the keys' input before the keys
	valuesFrom   int
	padded       bool
}

func newHeads(o op.Attention, in []*graph.Node) heads {
	q, tk := in[0].Shape, in[o.Keys()].Shape[1]
	inner := o.Heads * o.HeadDim
	keysFrom, valuesFrom := inner, 2*inner
	switch {
	case o.KVHeads > 0:
		keysFrom, valuesFrom = 0, 0
	case o.Cross:
		keysFrom, valuesFrom = 0, inner
	}
	return heads{
		shape: kernel.AttentionShape{
			Queries: q[1], Keys: tk, HeadDim: o.HeadDim,
			QStride: q[2], KStride: in[o.Keys()].Shape[2], VStride: in[o.Values()].Shape[2], OStride: inner,
			Causal: o.Causal, Valid: tk,
			Scale: float32(1 / math.Sqrt(float64(o.HeadDim))),
		},
		batch: q[0], count: o.Heads, dim: o.HeadDim, sharing: o.Sharing(), padded: o.Padded,
		keys: o.Keys(), values: o.Values(), keysFrom: keysFrom, valuesFrom: valuesFrom,
	}
}

// at returns the operands of head h of example b: q, k and v; in are the attention's inputs (or
// their gradients).
func (hs *heads) at(in [][]float32, b, h int) (q, k, v []float32) {
	qFrom, kFrom, vFrom := hs.places(b, h)
	return in[0][qFrom:], in[hs.keys][kFrom:], in[hs.values][vFrom:]
}

// places returns where head h of example b begins: q in the first input, k and v in theirs.
func (hs *heads) places(b, h int) (q, k, v int) {
	s, shared := &hs.shape, h/hs.sharing*hs.dim
	q = b*s.Queries*s.QStride + h*hs.dim
	k = b*s.Keys*s.KStride + hs.keysFrom + shared
	v = b*s.Keys*s.VStride + hs.valuesFrom + shared
	return q, k, v
}

// eachSharing calls f for a thread's heads: all that share keys and values, in ascending order.
func (hs *heads) eachSharing(part, parts int, f func(b, h int)) {
	from, to := share(hs.batch*hs.count/hs.sharing, part, parts, 1)
	for i := from * hs.sharing; i < to*hs.sharing; i++ {
		f(i/hs.count, i%hs.count)
	}
}

// valid returns the number of keys of example b.
func (hs *heads) valid(in [][]float32, b int) int {
	if !hs.padded {
		return hs.shape.Keys
	}
	return int(ints(in[len(in)-1])[b])
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
		hs.eachSharing(part, parts, func(b, h int) {
			q, k, v := hs.at(in[3:], b, h)
			dq, dk, dv := hs.at(out, b, h)
			s.Valid, s.AddKeys = hs.valid(in[3:], b), h%hs.sharing > 0
			rows, lse := b*s.Queries*s.OStride+h*hs.dim, in[2][(b*hs.count+h)*s.Queries:][:s.Queries]
			kernel.AttentionGrad(s, dq, dk, dv, in[0][rows:], q, k, v, in[1][rows:], lse, w.scratch)
		})
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
		x := cutFloats(w.scratch[own:], q, kv, kv, q, kv, kv, q, q)
		hs.eachSharing(part, parts, func(b, h int) {
			hs.load(k.in[3:], in[3:], b, h, x[:3])
			rows, lse := b*s.Queries*s.OStride+h*hs.dim, in[2][(b*hs.count+h)*s.Queries:][:s.Queries]
			k.in[0].loadRows(x[6], in[0], rows, s.Queries, hs.dim, s.OStride)
			k.in[1].loadRows(x[7], in[1], rows, s.Queries, hs.dim, s.OStride)
			shape := compact
			shape.Valid, shape.AddKeys = hs.valid(in[3:], b), h%hs.sharing > 0
			kernel.AttentionGrad(shape, x[3], x[4], x[5], x[6], x[0], x[1], x[2], x[7], lse, w.scratch[:own])
			qAt, kAt, vAt := hs.places(b, h)
			k.out[0].storeRows(out[0], qAt, x[3], s.Queries, hs.dim, s.QStride)
			if (h+1)%hs.sharing == 0 {
				k.out[hs.keys].storeRows(out[hs.keys], kAt, x[4], s.Keys, hs.dim, s.KStride)
				k.out[hs.values].storeRows(out[hs.values], vAt, x[5], s.Keys, hs.dim, s.VStride)
			}
		})
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
	q, k, v := hs.places(b, h)
	forms[0].loadRows(x[0], in[0], q, s.Queries, hs.dim, s.QStride)
	forms[hs.keys].loadRows(x[1], in[hs.keys], k, s.Keys, hs.dim, s.KStride)
	forms[hs.values].loadRows(x[2], in[hs.values], v, s.Keys, hs.dim, s.VStride)
}
