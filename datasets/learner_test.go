package datasets

import (
	"math"
	"testing"
)

// countModel is the simplest learner: it counts what follows each context of up
// to n tokens, and smooths each order with the one below (Witten and Bell).
type countModel struct {
	vocab  int
	orders []map[string]map[int32]int
}

func newCountModel(vocab, n int) *countModel {
	m := &countModel{vocab: vocab, orders: make([]map[string]map[int32]int, n+1)}
	for k := range m.orders {
		m.orders[k] = map[string]map[int32]int{}
	}
	return m
}

func (m *countModel) learn(sequence []int32) {
	for t := 1; t < len(sequence); t++ {
		for k := range min(t+1, len(m.orders)) {
			context := string(sequence[t-k : t])
			if m.orders[k][context] == nil {
				m.orders[k][context] = map[int32]int{}
			}
			m.orders[k][context][sequence[t]]++
		}
	}
}

func (m *countModel) prob(before []int32, token int32) float64 {
	p := 1 / float64(m.vocab)
	for k := range min(len(before)+1, len(m.orders)) {
		after := m.orders[k][string(before[len(before)-k:])]
		total := 0
		for _, n := range after {
			total += n
		}
		if total == 0 {
			break
		}
		p = (float64(after[token]) + float64(len(after))*p) / float64(total+len(after))
	}
	return p
}

// loss returns the mean loss over the held-out split.
func (m *countModel) loss(t testing.TB, s *Synthetic) float64 {
	b := mustBatch(t, s, HeldOut, 0, s.heldOut)
	sum := 0.0
	for i := range b.Examples() {
		tokens := sequence(b, i)
		for k := 1; k < len(tokens); k++ {
			sum -= math.Log(m.prob(tokens[:k], tokens[k]))
		}
	}
	return sum / float64(b.Count)
}

// The loss of a model of the language's order falls to the floor; that of one
// of a lower order stays at ln S. Subtracting the ideal loss removes the noise
// of the held-out sequences.
func TestCountingReachesTheFloorWithTheRightOrderOnly(t *testing.T) {
	for _, c := range []SyntheticConfig{{HeldOut: 512}, {HeldOut: 512, Vocab: 16, Lag: 3, Skew: 2}} {
		s := mustSynthetic(t, Config{Synthetic: c})
		lag := s.lang.lag
		low, right := newCountModel(s.Vocab(), lag-1), newCountModel(s.Vocab(), lag)
		floor, noise := s.Floor(s.seqLen), ideal(s, mustBatch(t, s, HeldOut, 0, 512))-s.Floor(s.seqLen)
		last := math.Inf(1)
		for sequences, done := 64, 0; sequences <= 4096; sequences *= 4 {
			b := mustBatch(t, s, Train, 0, sequences)
			for ; done < sequences; done++ {
				low.learn(sequence(b, done))
				right.learn(sequence(b, done))
			}
			loss := right.loss(t, s) - noise
			t.Logf("lag %d, %6d tokens: order %d %.4f, order %d %.4f, floor %.4f", lag, sequences*s.seqLen, lag, loss, lag-1, low.loss(t, s), floor)
			if loss >= last || loss < floor {
				t.Errorf("lag %d, %d sequences: loss %v after %v, floor %v", lag, sequences, loss, last, floor)
			}
			if sequences*s.seqLen == 16384 && loss > 1.05*floor {
				t.Errorf("lag %d: %v after 16384 tokens, want within 5%% of %v", lag, loss, floor)
			}
			last = loss
		}
		if last > 1.02*floor {
			t.Errorf("lag %d: order %d ends at %v, want within 2%% of %v", lag, lag, last, floor)
		}
		if got, want := low.loss(t, s), math.Log(float64(s.lang.succ)); math.Abs(got-want) > 0.03*want {
			t.Errorf("lag %d: order %d ends at %v, want about ln S = %v", lag, lag-1, got, want)
		}
	}
}
