package kernel

import (
	"math"

	"gpipebench/internal/kernel/exactmath"
)

// AttentionShape describes scaled dot-product attention (Vaswani et al. 2017,
// section 3.2.1) of one head of one example:
//
//	o = softmax(Scale * q kᵀ) v
//
// Row i of q starts at q[i*QStride] and has HeadDim floats. The same holds for
// k, v and o and for the gradients dq, dk, dv and do, which have the layout of
// their tensors. Heads are side by side in a row, so that a stride is the width
// of the whole projection. Elements between the HeadDim columns of two rows are
// neither read nor written.
//
// The bits of a head depend only on its inputs and on Queries, Keys, HeadDim,
// Causal, Valid and Scale: not on strides or places in a buffer, and not on
// rows of k and v at Valid and beyond, which are never read.
type AttentionShape struct {
	Queries, Keys, HeadDim             int
	QStride, KStride, VStride, OStride int

	// Causal restricts query i to the keys 0 to i+Keys-Queries: the last query
	// sees every key.
	Causal bool

	// Valid is the number of keys that are not padding; Keys if there is no
	// padding.
	Valid int

	// Scale multiplies the scores before the softmax. It is positive.
	Scale float32

	// AddKeys makes AttentionGrad add the gradients of k and v to what dk and dv hold, as further
	// terms of the same chains, instead of overwriting it: for heads of queries that share a head
	// of keys and values.
	AddKeys bool
}

// attentionTile is the number of query rows that are handled at once, which
// suits attention.mul best. The scores of a tile stay in the first-level cache
// up to a thousand keys, and rounding the causal triangle up to tiles wastes
// half a tile per row.
const attentionTile = 8

// Attention computes o, and in lse the log-sum-exp of every query's scaled and
// masked scores, from which AttentionGrad computes the softmax again. A query
// that sees no key has o = 0 and lse = -Inf. scratch has Scratch floats; its
// contents do not matter.
//
// A NaN or infinity stays a NaN or infinity in every query that sees it. One in
// a row of v that causality hides may also reach up to seven preceding queries,
// since their tile multiplies it by weights of zero.
func Attention(s AttentionShape, o, lse, q, k, v, scratch []float32) {
	first := s.first()
	for i := range first {
		clear(o[i*s.OStride:][:s.HeadDim])
		lse[i] = float32(math.Inf(-1))
	}
	if first == s.Queries {
		return
	}

	ld := scratchStride(s.Keys)
	kt, scratch := scratch[:s.HeadDim*ld], scratch[s.HeadDim*ld:]
	p, scratch := scratch[:attentionTile*ld], scratch[attentionTile*ld:]
	attention.transpose(kt, ld, k, s.KStride, s.keys(), s.HeadDim)
	// Every tile reads all of v. If its rows are far apart, each takes an entry
	// of the first-level translation buffer, which has about 64.
	packed := scratch[:s.Keys*s.HeadDim]
	for j := range s.keys() {
		copy(packed[j*s.HeadDim:][:s.HeadDim], v[j*s.VStride:][:s.HeadDim])
	}

	for i0 := first; i0 < s.Queries; i0 += attentionTile {
		m := min(attentionTile, s.Queries-i0)
		n := s.sees(i0 + m - 1)
		attention.mul(m, roundUp16(n), s.HeadDim, q[i0*s.QStride:], s.QStride, 1, kt, ld, p, ld, false)
		var sum [attentionTile]float32
		for i := range m {
			seen := s.sees(i0 + i)
			row := p[i*ld:][:n]
			lse[i0+i] = float32(RowMax(row[:seen]) * s.Scale)
			sum[i] = vector.expShift(row[:seen], row[:seen], s.Scale, lse[i0+i])
			clear(row[seen:])
		}
		attention.mul(m, s.HeadDim, n, p, ld, 1, packed, s.HeadDim, o[i0*s.OStride:], s.OStride, false)
		// The weights are at most one before they are normalised, so
		// normalising o instead takes less time and loses no accuracy.
		for i := range m {
			row := o[(i0+i)*s.OStride:][:s.HeadDim]
			Scale(row, row, 1/sum[i])
			lse[i0+i] += float32(exactmath.Log(float64(sum[i])))
		}
	}
}

// Scratch returns the length of Attention's scratch: kᵀ, a tile of scores and
// v. It does not depend on the strides, Causal or Valid.
func (s AttentionShape) Scratch() int {
	return (s.HeadDim+attentionTile)*scratchStride(s.Keys) + s.Keys*s.HeadDim
}

// keys returns the number of keys that are not padding.
func (s AttentionShape) keys() int { return max(0, min(s.Valid, s.Keys)) }

// sees returns the number of keys that query i sees: keys 0 to sees(i)-1.
func (s AttentionShape) sees(i int) int {
	if s.Causal {
		return max(0, min(s.keys(), i+1+s.Keys-s.Queries))
	}
	return s.keys()
}

// first returns the first query that sees a key. All later queries see one too.
func (s AttentionShape) first() int {
	if s.keys() == 0 {
		return s.Queries
	}
	return s.firstToSee(0)
}

// scratchStride returns the distance between rows of n elements in scratch. It
// is an odd number of cache lines, so that the rows of a column do not all fall
// into the same few sets of a cache.
func scratchStride(n int) int { return roundUp16(n) | 16 }

func roundUp16(n int) int { return (n + 15) &^ 15 }
