package datasets

import (
	"fmt"
	"math"
	"strings"
)

// maxBLEU is the longest n-gram that BLEU looks at.
const maxBLEU = 4

// BLEU is the corpus score of Papineni et al. (BLEU: a Method for Automatic
// Evaluation of Machine Translation, ACL 2002, section 2.3), one reference to a
// sentence:
//
//	BLEU = BP exp(mean over n = 1..4 of ln p_n),  BP = min(1, exp(1 - r/c))
//
// p_n is the share of the translations' n-grams that their references have, of
// each n-gram at most as many as the reference has ("modified" precision); c and
// r are the lengths of translations and references. All are sums over the
// corpus, sentence by sentence, before anything is divided. Nothing is smoothed:
// without a single 4-gram that matches, the score is 0.
//
// The zero value is an empty corpus. Words are what stands between white space;
// case and punctuation count as they are.
type BLEU struct {
	Matches [maxBLEU]int // of n-grams of 1 to 4 words
	Total   [maxBLEU]int // n-grams in the translations
	Words   int          // in the translations: c
	RefLen  int          // words in the references: r
}

// Add takes in one sentence's translation and its reference.
func (b *BLEU) Add(translation, reference string) {
	words, ref := strings.Fields(translation), strings.Fields(reference)
	b.Words += len(words)
	b.RefLen += len(ref)
	for n := 1; n <= maxBLEU; n++ {
		// A space cannot be in a word, so joined words tell n-grams apart.
		left := map[string]int{}
		for i := range len(ref) - n + 1 {
			left[strings.Join(ref[i:i+n], " ")]++
		}
		for i := range len(words) - n + 1 {
			b.Total[n-1]++
			gram := strings.Join(words[i:i+n], " ")
			if left[gram] > 0 {
				left[gram]--
				b.Matches[n-1]++
			}
		}
	}
}

// AddAll takes in another corpus.
func (b *BLEU) AddAll(other BLEU) {
	for i := range maxBLEU {
		b.Matches[i] += other.Matches[i]
		b.Total[i] += other.Total[i]
	}
	b.Words += other.Words
	b.RefLen += other.RefLen
}

// Precision is p_n, n from 1 to 4; 0 where there is no n-gram.
func (b BLEU) Precision(n int) float64 {
	if b.Total[n-1] == 0 {
		return 0
	}
	return float64(b.Matches[n-1]) / float64(b.Total[n-1])
}

// BrevityPenalty is BP, 0 for an empty translation.
func (b BLEU) BrevityPenalty() float64 {
	switch {
	case b.Words == 0:
		return 0
	case b.Words >= b.RefLen:
		return 1
	}
	return math.Exp(1 - float64(b.RefLen)/float64(b.Words))
}

// Score is BLEU as it is usually given, 0 to 100.
func (b BLEU) Score() float64 {
	sum := 0.0
	for n := 1; n <= maxBLEU; n++ {
		sum += math.Log(b.Precision(n))
	}
	return 100 * b.BrevityPenalty() * math.Exp(sum/maxBLEU)
}

// String is the score and what it is made of.
func (b BLEU) String() string {
	return fmt.Sprintf("BLEU %.2f (%.1f/%.1f/%.1f/%.1f, brevity penalty %.3f)", b.Score(),
		100*b.Precision(1), 100*b.Precision(2), 100*b.Precision(3), 100*b.Precision(4), b.BrevityPenalty())
}
