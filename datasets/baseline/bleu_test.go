package baseline

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/philox"
)

func bleuOf(pairs ...string) BLEU {
	var b BLEU
	for i := 0; i < len(pairs); i += 2 {
		b.Add(pairs[i], pairs[i+1])
	}
	return b
}

// All values are computed by hand from sacrebleu's definition.
func TestSmoothedBLEUByHand(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []string // translation, reference, ...
		want  float64
	}{
		// Nothing to smooth: 5/6, 4/5, 3/4 and 2/3, as without.
		{"all lengths match", []string{"a b c d e x", "a b c d e"}, 100 * math.Pow(1.0/3, 0.25)},
		// 3 of 4 words, 2 of 3 pairs, 1 of 2 triples; half a match of one 4-gram.
		{"no 4-gram", []string{"a b c x", "a b c d"}, 100 * math.Pow(3.0/4*2/3*1/2*1/2, 0.25)},
		// 2 of 4 words, none of 3 pairs, 2 triples and one 4-gram: 1/2, 1/4 and 1/8 of a match.
		{"words alone", []string{"a x b y", "a b c d"}, 100 * math.Pow(2.0/4*(1.0/2/3)*(1.0/4/2)*(1.0/8), 0.25)},
		// The same, a word short of five: exp(1 - 5/4).
		{"brevity", []string{"a x b y", "a b c d e"}, 100 * math.Exp(-0.25) * math.Pow(2.0/4*(1.0/2/3)*(1.0/4/2)*(1.0/8), 0.25)},
		{"no word", []string{"x y z w", "a b c d"}, 0},
		{"no translation of four words", []string{"a b c", "a b c"}, 0},
		{"nothing translated", []string{"", "a b c d"}, 0},
		{"nothing", nil, 0},
		// Counts are added first: 5 of 8 words, 3 of 6 pairs, 2 of 4 triples, 1 of 2 4-grams.
		{"corpus", []string{"a b c d", "a b c d", "p x y z", "p q r"}, 100 * math.Pow(5.0/8*3/6*2/4*1/2, 0.25)},
	} {
		if got := bleuOf(c.pairs...).Smoothed(); !(math.Abs(got-c.want) < 1e-9) { // also rejects NaN
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// bruteBLEU follows the paper literally: each n-gram of a translation counts as
// often as in the translation or in its reference, whichever is less.
func bruteBLEU(pairs []string) float64 {
	count := func(words, gram []string) (n int) {
		for i := 0; i+len(gram) <= len(words); i++ {
			if slices.Equal(words[i:i+len(gram)], gram) {
				n++
			}
		}
		return n
	}
	sum := 0.0
	c, r := 0, 0
	for n := 1; n <= 4; n++ {
		clipped, all := 0, 0
		for i := 0; i < len(pairs); i += 2 {
			words, ref := strings.Fields(pairs[i]), strings.Fields(pairs[i+1])
			var done [][]string
			for k := 0; k+n <= len(words); k++ {
				gram := words[k : k+n]
				all++
				if slices.ContainsFunc(done, func(d []string) bool { return slices.Equal(d, gram) }) {
					continue
				}
				done = append(done, gram)
				clipped += min(count(words, gram), count(ref, gram))
			}
			if n == 1 {
				c, r = c+len(words), r+len(ref)
			}
		}
		if clipped == 0 {
			return 0
		}
		sum += math.Log(float64(clipped)/float64(all)) / 4
	}
	return 100 * math.Exp(min(0, 1-float64(r)/float64(c))) * math.Exp(sum)
}

func TestBLEUAgainstBruteForce(t *testing.T) {
	random := philox.NewStream(philox.KeyOf(1, "bleu"), 0)
	sentence := func() string {
		var words []string
		for range 2 + random.Intn(12) {
			words = append(words, string(rune('a'+random.Intn(3))))
		}
		return strings.Join(words, " ")
	}
	scored := 0
	for range 300 {
		var pairs []string
		for range 2 * (1 + random.Intn(6)) {
			pairs = append(pairs, sentence())
		}
		b := bleuOf(pairs...)
		testkit.Near(t, b.Score(), bruteBLEU(pairs), 1e-9, "%q", pairs)
		if b.Score() > 0 {
			scored++
		}
		// As two corpora that are added.
		half := len(pairs) / 4 * 2
		parts := bleuOf(pairs[:half]...)
		parts.AddAll(bleuOf(pairs[half:]...))
		testkit.Equal(t, parts, b, "%q: parts give", pairs)
	}
	if scored < 100 {
		t.Errorf("only %d scores above 0", scored)
	}
}
