package datasets

import "math"

// targetModel is an n-gram model of target ids, n up to 3, with the smoothing
// of Witten and Bell (The Zero-Frequency Problem, IEEE Transactions on
// Information Theory 37(4), 1991, method C, interpolated): with c(h) tokens
// after the context h, d(h) of them different,
//
//	p(w|h) = (c(hw) + d(h) p(w|h')) / (c(h) + d(h))
//
// where h' is h without its oldest token; below the unigrams all are equal.
type targetModel struct {
	vocab  int
	grams  []map[[3]int32]int // c(hw) by order - 1; h right-aligned before w
	after  []map[[2]int32]int // c(h)
	unlike []map[[2]int32]int // d(h)
}

func newTargetModel(vocab, n int) *targetModel {
	m := &targetModel{vocab: vocab}
	for range n {
		m.grams = append(m.grams, map[[3]int32]int{})
		m.after = append(m.after, map[[2]int32]int{})
		m.unlike = append(m.unlike, map[[2]int32]int{})
	}
	return m
}

// history returns the k tokens before position i of a sentence, with Begin
// before the first.
func history(ids []int32, i, k int) (h [2]int32) {
	for j := 1; j <= k; j++ {
		h[2-j] = Begin
		if i >= j {
			h[2-j] = ids[i-j]
		}
	}
	return h
}

func (m *targetModel) learn(ids []int32) {
	for i, w := range ids {
		for k := range m.grams {
			h := history(ids, i, k)
			g := [3]int32{h[0], h[1], w}
			if m.grams[k][g]++; m.grams[k][g] == 1 {
				m.unlike[k][h]++
			}
			m.after[k][h]++
		}
	}
}

// nats returns the loss on a sentence.
func (m *targetModel) nats(ids []int32) float64 {
	sum := 0.0
	for i, w := range ids {
		p := 1 / float64(m.vocab)
		for k := range m.grams {
			h := history(ids, i, k)
			d := float64(m.unlike[k][h])
			if d == 0 {
				break
			}
			p = (float64(m.grams[k][[3]int32{h[0], h[1], w}]) + d*p) / (float64(m.after[k][h]) + d)
		}
		sum -= math.Log(p)
	}
	return sum
}
