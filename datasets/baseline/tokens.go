package baseline

import "gpipebench/internal/kernel/exactmath"

// Tokens is an n-gram model of sentences of ids, n up to 3, with the smoothing
// of Witten and Bell (The Zero-Frequency Problem, IEEE Transactions on
// Information Theory 37(4), 1991, method C, interpolated): with c(h) tokens
// after the context h, d(h) of them different,
//
//	p(w|h) = (c(hw) + d(h) p(w|h')) / (c(h) + d(h))
//
// where h' is h without its oldest token; below the unigrams all are equal.
type Tokens struct {
	vocab  int
	begin  int32
	grams  []map[[3]int32]int // c(hw) by order - 1; h right-aligned before w
	after  []map[[2]int32]int // c(h)
	unlike []map[[2]int32]int // d(h)
}

// NewTokens returns a model of order n of the ids 0..vocab-1 that has learned nothing. begin
// is the id before the first of a sentence.
func NewTokens(vocab, n int, begin int32) *Tokens {
	m := &Tokens{vocab: vocab, begin: begin}
	for range n {
		m.grams = append(m.grams, map[[3]int32]int{})
		m.after = append(m.after, map[[2]int32]int{})
		m.unlike = append(m.unlike, map[[2]int32]int{})
	}
	return m
}

// history returns the k tokens before position i of a sentence.
func (m *Tokens) history(ids []int32, i, k int) (h [2]int32) {
	for j := 1; j <= k; j++ {
		h[2-j] = m.begin
		if i >= j {
			h[2-j] = ids[i-j]
		}
	}
	return h
}

// Learn counts a sentence.
func (m *Tokens) Learn(ids []int32) {
	for i, w := range ids {
		for k := range m.grams {
			h := m.history(ids, i, k)
			g := [3]int32{h[0], h[1], w}
			if m.grams[k][g]++; m.grams[k][g] == 1 {
				m.unlike[k][h]++
			}
			m.after[k][h]++
		}
	}
}

// Nats returns the loss on a sentence, the sum over its tokens.
func (m *Tokens) Nats(ids []int32) float64 {
	sum := 0.0
	for i, w := range ids {
		p := 1 / float64(m.vocab)
		for k := range m.grams {
			h := m.history(ids, i, k)
			d := float64(m.unlike[k][h])
			if d == 0 {
				break
			}
			p = (float64(m.grams[k][[3]int32{h[0], h[1], w}]) + float64(d*p)) / (float64(m.after[k][h]) + d)
		}
		sum -= exactmath.Log(p)
	}
	return sum
}
