package baseline

import (
	"strings"

	"gpipebench/internal/kernel/exactmath"
)

// maxBLEU is the length of the longest n-grams in BLEU.
const maxBLEU = 4

// BLEU is the corpus score of Papineni et al. (BLEU: a Method for Automatic
// Evaluation of Machine Translation, ACL 2002, section 2.3), with one reference
// per sentence:
//
//	BLEU = BP exp(mean over n = 1..4 of ln p_n),  BP = min(1, exp(1 - r/c))
//
// p_n is the share of the translations' n-grams that occur in their references,
// where each n-gram counts at most as often as in the reference ("modified"
// precision); c and r are the lengths of translations and references. All are
// summed over the sentences of the corpus before the divisions. Score has no
// smoothing: without a matching 4-gram it is 0. Smoothed has one.
//
// The zero value is an empty corpus. Words are separated by white space; case
// and punctuation are compared as they are.
type BLEU struct {
	Matches [maxBLEU]int // of n-grams of 1 to 4 words
	Total   [maxBLEU]int // n-grams in the translations; words: c
	RefLen  int          // words in the references: r
}

// Add adds the translation of one sentence and its reference.
func (b *BLEU) Add(translation, reference string) {
	words, ref := strings.Fields(translation), strings.Fields(reference)
	b.RefLen += len(ref)
	for n := 1; n <= maxBLEU; n++ {
		// A word contains no space, so joined words identify an n-gram.
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

// AddAll adds another corpus.
func (b *BLEU) AddAll(other BLEU) {
	for i := range maxBLEU {
		b.Matches[i] += other.Matches[i]
		b.Total[i] += other.Total[i]
	}
	b.RefLen += other.RefLen
}

// Precision returns p_n for n from 1 to 4; 0 if there is no n-gram.
func (b BLEU) Precision(n int) float64 {
	if b.Total[n-1] == 0 {
		return 0
	}
	return float64(b.Matches[n-1]) / float64(b.Total[n-1])
}

// BrevityPenalty returns BP, 0 for an empty translation.
func (b BLEU) BrevityPenalty() float64 {
	switch words := b.Total[0]; {
	case words == 0:
		return 0
	case words >= b.RefLen:
		return 1
	default:
		return exactmath.Exp(1 - float64(b.RefLen)/float64(words))
	}
}

// Score returns BLEU in the usual scale, 0 to 100.
func (b BLEU) Score() float64 {
	return b.score(b.Precision)
}

// Smoothed returns BLEU, 0 to 100, with the exponential smoothing of NIST's
// mteval-v13a.pl, which is sacrebleu's default for a corpus: the k-th length n
// that has n-grams but no match counts as 1/2^k of a match. Without a matching
// word, or without a translation of four words or more, it is 0. Words are
// separated by white space here, where sacrebleu has a tokenizer.
func (b BLEU) Smoothed() float64 {
	if b.Matches[0] == 0 {
		return 0
	}
	match := 1.0
	return b.score(func(n int) float64 {
		if b.Matches[n-1] > 0 || b.Total[n-1] == 0 {
			return b.Precision(n)
		}
		match /= 2
		return match / float64(b.Total[n-1])
	})
}

// score is BLEU by the precisions of 1- to 4-grams, which it asks for in this order.
func (b BLEU) score(precision func(n int) float64) float64 {
	sum := 0.0
	for n := 1; n <= maxBLEU; n++ {
		sum += exactmath.Log(precision(n))
	}
	return 100 * b.BrevityPenalty() * exactmath.Exp(sum/maxBLEU)
}
