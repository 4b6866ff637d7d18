package baseline

import (
	"math"
	"testing"

	"gpipebench/nn/philox"
)

const begin, end = 1, 2

// Sentences 4 End and 4 4 End with a vocabulary of 5. Of 5 tokens 3 are 4 and 2
// End, two different ones: p(4) = (3 + 2/5) / 7, p(End) = (2 + 2/5) / 7, p(0) =
// (2/5) / 7. After 4: 4 once, End twice: p(4|4) = (1 + 2 p(4)) / 5. After
// Begin: 4 twice, one kind: p(4|Begin) = (2 + p(4)) / 3. After 0, an unseen
// context, the shorter context is used.
func TestTokensByHand(t *testing.T) {
	m := NewTokens(5, 2, begin)
	m.Learn([]int32{4, end})
	m.Learn([]int32{4, 4, end})
	p4, pEnd, p0 := 3.4/7, 2.4/7, 0.4/7
	for _, c := range []struct {
		ids  []int32
		want float64
	}{
		{[]int32{4}, (2 + p4) / 3},
		{[]int32{4, end}, (2 + p4) / 3 * (2 + 2*pEnd) / 5},
		{[]int32{4, 4}, (2 + p4) / 3 * (1 + 2*p4) / 5},
		{[]int32{0, 4}, p0 / 3 * p4},
	} {
		if got := m.Nats(c.ids); !(math.Abs(got+math.Log(c.want)) < 1e-12) {
			t.Errorf("%v: %v, want %v", c.ids, got, -math.Log(c.want))
		}
	}
}

func TestTokensProbabilitiesSumToOne(t *testing.T) {
	const vocab = 80
	random := philox.NewStream(philox.KeyOf(7, "sentences"), 0)
	var sentences [][]int32
	for range 50 {
		s := make([]int32, 2+random.Intn(8))
		for i := range s {
			s[i] = int32(random.Intn(vocab / (1 + i))) // some follow others often
		}
		sentences = append(sentences, s)
	}
	for n := 1; n <= 3; n++ {
		m := NewTokens(vocab, n, begin)
		for _, s := range sentences {
			m.Learn(s)
		}
		for _, before := range [][]int32{nil, {9}, {9, 10}, sentences[3][:2], {77, 1}} {
			sum := 0.0
			for id := range int32(vocab) {
				ids := append(append([]int32(nil), before...), id)
				sum += math.Exp(m.Nats(before) - m.Nats(ids))
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("%d-gram after %v: sum %v", n, before, sum)
			}
		}
	}
}
