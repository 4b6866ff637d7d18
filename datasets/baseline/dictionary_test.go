package baseline

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

// texts are pairs, one after another.
func texts(pairs ...string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for p := range slices.Chunk(pairs, 2) {
			if !yield(p[0], p[1]) {
				return
			}
		}
	}
}

// Two pairs, "a b" = "x y" and "a" = "x", one round by hand. Initially all are
// equal; 0 is the source word for "none". In the first pair each target word
// comes with 1/3 from a, b and 0, in the second x comes with 1/2 from a and 0.
// So a expects x 1/3+1/2, y 1/3: p(x|a) = 5/7; b expects x 1/3, y 1/3: p(x|b) =
// 1/2; 0 is like a. In the second round x of the first pair is divided 5/7 :
// 1/2 : 5/7, and y 2/7 : 1/2 : 2/7.
func TestModel1ByHand(t *testing.T) {
	m := newModel1(texts("a b", "x y", "a", "x"))
	prob := func(s, to string) float64 {
		for e := range m.prob {
			if m.source.words[m.sourceOf[e]] == s && m.target.words[m.targetOf[e]] == to {
				return m.prob[e]
			}
		}
		return math.NaN()
	}
	check := func(want map[string]float64) {
		t.Helper()
		for _, s := range []string{"a", "b", ""} {
			testkit.Near(t, prob(s, "x"), want[s], 1e-12, "p(x|%s)", s)
			testkit.Near(t, prob(s, "y"), 1-want[s], 1e-12, "p(y|%s)", s)
		}
	}
	m.round()
	check(map[string]float64{"a": 5.0 / 7, "b": 0.5, "": 5.0 / 7})
	m.round()
	// 5/7 and 1/2 of 27/14: 10/27 and 7/27. 2/7 and 1/2 of 15/14: 4/15 and 7/15.
	ax, ay := 10.0/27+0.5, 4.0/15
	bx, by := 7.0/27, 7.0/15
	check(map[string]float64{"a": ax / (ax + ay), "b": bx / (bx + by), "": ax / (ax + ay)})
}

func TestDictionary(t *testing.T) {
	// "uh" means nothing: none of the other words needs it. The order of words
	// differs.
	d := LearnDictionary(texts(
		"cat uh black", "noir chat",
		"dog uh black", "noir chien",
		"cat uh white", "blanc chat",
		"dog white", "blanc chien",
		"cat", "chat",
		"dog", "chien",
	))
	for text, want := range map[string]string{
		"dog uh black":  "chien noir",
		"white cat":     "blanc chat",
		"cat bird  cat": "chat bird chat", // an unknown word stays
		"uh":            "",
		"":              "",
	} {
		testkit.Equal(t, d.Translate(text), want, "%q", text)
	}
}

// The numbers of pairs and of words are limited.
func TestDictionaryLimits(t *testing.T) {
	long := ""
	for i := range dictionaryWords + 1 {
		long += fmt.Sprintf("w%d ", i)
	}
	pairs := []string{long, "z", "a", long}
	for range dictionaryPairs {
		pairs = append(pairs, "a", "b")
	}
	m := newModel1(texts(append(pairs, "late", "tard")...))
	testkit.Equal(t, len(m.sentences), dictionaryPairs, "pairs")
	testkit.Equal(t, len(m.source.words), 2, "words")
	testkit.Equal(t, LearnDictionary(texts()).Translate("a b"), "a b", "learned of nothing")
}
