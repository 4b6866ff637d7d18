package baseline

import "strings"

const (
	maxChrF  = 6 // characters of the longest n-grams in chrF
	betaChrF = 2 // how many times as important as precision recall is
)

// ChrF is the corpus score of Popović (chrF: character n-gram F-score for
// automatic MT evaluation, WMT 2015) with one reference per sentence, as
// sacrebleu 2 computes it unless told otherwise (character order 6, word order
// 0, beta 2):
//
//	chrF = (1 + beta²) P R / (beta² P + R)
//
// P and R are means over n = 1..6 of the shares of the translations' n-grams of
// characters that occur in their references, and of the references' n-grams that
// occur in their translations. An n-gram counts at most as often as in the other
// text. Counts are summed over the sentences of the corpus before the divisions;
// lengths n of which either side has no n-gram have no part in the means. As in
// sacrebleu, the n-grams of a translation do not count where its own reference
// is too short to have one of that length.
//
// The zero value is an empty corpus. White space is left out; case and
// punctuation are compared as they are. A score of short sentences is seldom 0,
// unlike that of BLEU.
type ChrF struct {
	Matches     [maxChrF]int // of n-grams of 1 to 6 characters
	Translation [maxChrF]int // n-grams in the translations
	Reference   [maxChrF]int // n-grams in the references
}

// Add adds the translation of one sentence and its reference.
func (c *ChrF) Add(translation, reference string) {
	characters := []rune(strings.Join(strings.Fields(translation), ""))
	ref := []rune(strings.Join(strings.Fields(reference), ""))
	for n := 1; n <= min(maxChrF, len(ref)); n++ {
		left := map[string]int{}
		for i := range len(ref) - n + 1 {
			c.Reference[n-1]++
			left[string(ref[i:i+n])]++
		}
		for i := range len(characters) - n + 1 {
			c.Translation[n-1]++
			if gram := string(characters[i : i+n]); left[gram] > 0 {
				left[gram]--
				c.Matches[n-1]++
			}
		}
	}
}

// AddAll adds another corpus.
func (c *ChrF) AddAll(other ChrF) {
	for i := range maxChrF {
		c.Matches[i] += other.Matches[i]
		c.Translation[i] += other.Translation[i]
		c.Reference[i] += other.Reference[i]
	}
}

// Score returns chrF in the usual scale, 0 to 100.
func (c ChrF) Score() float64 {
	precision, recall, lengths := 0.0, 0.0, 0.0
	for i, matches := range c.Matches {
		if c.Translation[i] > 0 && c.Reference[i] > 0 {
			precision += float64(matches) / float64(c.Translation[i])
			recall += float64(matches) / float64(c.Reference[i])
			lengths++
		}
	}
	if precision == 0 { // and so recall
		return 0
	}
	precision /= lengths
	recall /= lengths
	const weight = betaChrF * betaChrF
	return 100 * (1 + weight) * precision * recall / (float64(weight*precision) + recall)
}
