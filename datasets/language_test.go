package datasets

import (
	"fmt"
	"math"
	"testing"

	"gpipebench/internal/testkit"
)

var languages = []SyntheticConfig{
	{},
	{Vocab: 6, Successors: 2},
	{Vocab: 8, Successors: 4},
	{Vocab: 5, Successors: 5},
}

func testLanguage(c SyntheticConfig, seed uint64) *language {
	return newLanguage(Config{Synthetic: c}.withDefaults().Synthetic, seed)
}

// The exact entropy of every position given the m tokens before it, computed by
// carrying the distribution of whole sequences forward with prob.
func TestEntropiesByEnumeration(t *testing.T) {
	for _, c := range []SyntheticConfig{
		{Vocab: 4, Successors: 2},
		{Vocab: 6, Successors: 3},
		{Vocab: 4, Successors: 4},
	} {
		l := testLanguage(c, 11)
		const length = 7
		sequences := map[string]float64{"": 1}
		for place := range length {
			longer := map[string]float64{}
			for s, p := range sequences {
				for token := range int32(l.vocab) {
					if q := l.prob([]rune(s), token); q > 0 {
						longer[s+string(rune(token))] += p * q
					}
				}
			}
			sequences = longer
			for order := 0; order <= place; order++ {
				want := math.Log(float64(l.vocab))
				switch {
				case order >= lag:
					want = l.entropy
				case order > 0:
					want = math.Log(float64(l.succ))
				}
				testkit.Near(t, conditionalEntropy(sequences, order), want, 1e-9, "%+v: entropy of token %d given %d before it", c, place, order)
			}
		}
	}
}

// prob returns the probability of a token given those before it.
func (l *language) prob(before []int32, token int32) float64 {
	t := len(before)
	if t == 0 {
		return 1 / float64(l.vocab)
	}
	c := l.class[token]
	if l.next[int(before[t-1])*l.succ+int(c)] != token {
		return 0
	}
	if t < lag {
		return 1 / float64(l.succ)
	}
	r := int(c) - int(l.class[before[t-lag]])
	if r < 0 {
		r += l.succ
	}
	return l.p[r]
}

// conditionalEntropy returns that of the last symbol given the n before it.
func conditionalEntropy(sequences map[string]float64, n int) float64 {
	joint, context := map[string]float64{}, map[string]float64{}
	for s, p := range sequences {
		r := []rune(s)
		joint[string(r[len(r)-n-1:])] += p
		context[string(r[len(r)-n-1:len(r)-1])] += p
	}
	h := 0.0
	for s, p := range joint {
		r := []rune(s)
		h -= p * math.Log(p/context[string(r[:len(r)-1])])
	}
	return h
}

func TestFloorIsTheEntropyOfTheTargets(t *testing.T) {
	l := testLanguage(SyntheticConfig{Vocab: 8, Successors: 4}, 1)
	lnS := math.Log(4)
	for n, want := range map[int]float64{1: lnS, 2: lnS + l.entropy, 10: lnS + 9*l.entropy} {
		testkit.Near(t, l.floor(n), want, 1e-12, "floor of %d tokens", n)
	}
}

func ExampleSynthetic() {
	s, err := NewSynthetic(Config{SeqLen: 64})
	if err != nil {
		panic(err)
	}
	yardsticks, err := s.Yardsticks()
	if err != nil {
		panic(err)
	}
	for _, y := range yardsticks {
		fmt.Printf("%-18s %.4f nats\n", y.Name, y.Loss)
	}
	// Output:
	// uniform            4.1589 nats
	// current token only 1.3863 nats
	// entropy            1.0836 nats
}
