package kernel

// AdditiveShape describes the additive attention of one example (Bahdanau et al. 2015):
// q is (Queries, Hidden), k (Keys, Hidden), u (Hidden), v (Keys, Values), all contiguous.
// Keys at Valid and beyond are padding, whose rows are never read.
//
// The bits of an example depend only on its rows, Valid and the sizes but Keys.
type AdditiveShape struct{ Queries, Keys, Hidden, Values, Valid int }

// AdditiveAttention computes the softmax p (Queries, Keys) of u·tanh(q_i + k_j) over the keys, 0 for
// padding, and o = p v (Queries, Values), which is 0 if no key is valid. Scratch has
// Scratch floats.
func AdditiveAttention(s AdditiveShape, o, p, q, k, u, v, scratch []float32) {
	n := s.valid()
	tangents, scratch := scratch[:s.Keys*s.Hidden], scratch[s.Keys*s.Hidden:]
	for i := range s.Queries {
		row := p[i*s.Keys : (i+1)*s.Keys]
		clear(row[n:])
		if n == 0 {
			continue
		}
		s.tangents(tangents, q, k, i)
		for j := range n {
			row[j] = vector.dot(tangents[j*s.Hidden:(j+1)*s.Hidden], u)
		}
		Softmax(row[:n], row[:n], 1, n)
	}
	Gemm(s.Queries, s.Values, n, p, s.Keys, 1, v, s.Values, 1, o, s.Values, false, scratch, nil)
}

// Scratch returns the length of AdditiveAttention's scratch, which is monotone in the sizes.
func (s AdditiveShape) Scratch() int {
	return s.Keys*s.Hidden + GemmScratch(s.Queries, s.Values, s.Keys)
}

// AdditiveAttentionGrad computes the gradients of q, k, u and v from those of o and the
// softmax p. An element of dq is one chain over the keys, one of dk or dv over the queries,
// and one of du over the queries and within each the keys; from zero, in ascending order.
// Scratch has GradScratch floats.
func AdditiveAttentionGrad(s AdditiveShape, dq, dk, du, dv, do, p, q, k, u, v, scratch []float32) {
	n := s.valid()
	clear(dq)
	clear(dk)
	clear(du)
	clear(dv[n*s.Values:])
	if n == 0 {
		return
	}
	cut := func(n int) []float32 {
		x := scratch[:n:n]
		scratch = scratch[n:]
		return x
	}
	tangents, d, ds := cut(s.Keys*s.Hidden), cut(s.Hidden), cut(s.Queries*s.Keys)
	Gemm(n, s.Values, s.Queries, p, 1, s.Keys, do, s.Values, 1, dv, s.Values, false, scratch, nil)
	Gemm(s.Queries, n, s.Values, do, s.Values, 1, v, 1, s.Values, ds, s.Keys, false, scratch, nil)
	for i := range s.Queries {
		s.tangents(tangents, q, k, i)
		row := ds[i*s.Keys : i*s.Keys+n]
		SoftmaxGrad(row, row, p[i*s.Keys:i*s.Keys+n], 1, n)
		dqRow := dq[i*s.Hidden : (i+1)*s.Hidden]
		for j, g := range row {
			t, dkRow := tangents[j*s.Hidden:(j+1)*s.Hidden], dk[j*s.Hidden:(j+1)*s.Hidden]
			vector.addScaled(du, du, t, g)
			Scale(d, u, g)
			TanhGrad(d, d, t)
			Add(dqRow, dqRow, d)
			Add(dkRow, dkRow, d)
		}
	}
}

// GradScratch returns the length of AdditiveAttentionGrad's scratch, which is monotone in
// the sizes.
func (s AdditiveShape) GradScratch() int {
	return s.Keys*s.Hidden + s.Hidden + s.Queries*s.Keys +
		max(GemmScratch(s.Keys, s.Values, s.Queries), GemmScratch(s.Queries, s.Keys, s.Values))
}

// tangents sets dst (Valid, Hidden) to tanh(q_i + k_j) of all valid keys j.
func (s AdditiveShape) tangents(dst, q, k []float32, i int) {
	n := s.valid()
	for j := range n {
		Add(dst[j*s.Hidden:(j+1)*s.Hidden], q[i*s.Hidden:(i+1)*s.Hidden], k[j*s.Hidden:(j+1)*s.Hidden])
	}
	Tanh(dst[:n*s.Hidden], dst[:n*s.Hidden])
}

func (s AdditiveShape) valid() int { return max(0, min(s.Valid, s.Keys)) }
