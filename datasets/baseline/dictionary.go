package baseline

import (
	"iter"
	"slices"
	"strings"
)

// Dictionary translates word by word, each word by the most probable one given
// the training pairs, in the order of the source. It is the baseline for a
// translator: it knows words and no grammar.
//
// Its probabilities are IBM Model 1's (Brown et al., The Mathematics of
// Statistical Machine Translation, Computational Linguistics 19(2), 1993,
// section 4.3): every target word comes from one source word of its sentence,
// or from none, all equally likely a priori. A source word with less than half
// a target word in expectation translates to nothing; a word that is not in the
// training pairs stays as it is.
type Dictionary struct {
	best map[string]string
}

const (
	dictionaryRounds = 6      // of expectation and maximisation
	dictionaryPairs  = 20_000 // only the first pairs are used, up to this number
	dictionaryWords  = 100    // longer sentences are not used
)

// LearnDictionary learns from the first 20,000 pairs of a source and its translation
// with at most 100 words on either side.
func LearnDictionary(pairs iter.Seq2[string, string]) *Dictionary {
	m := newModel1(pairs)
	for range dictionaryRounds {
		m.round()
	}
	d := &Dictionary{best: map[string]string{}}
	for s, word := range m.source.words {
		if s == noWord {
			continue
		}
		// Of equal ones take the first in the texts: entries are in that order.
		best, fertility := -1, 0.0
		for _, e := range m.entriesOf[s] {
			fertility += m.expected[e]
			if best < 0 || m.expected[e] > m.expected[best] {
				best = e
			}
		}
		if fertility < 0.5*float64(m.occurs[s]) {
			d.best[word] = ""
		} else {
			d.best[word] = m.target.words[m.targetOf[best]]
		}
	}
	return d
}

// Translate translates a text.
func (d *Dictionary) Translate(text string) string {
	var out []string
	for _, w := range strings.Fields(text) {
		switch translated, known := d.best[w]; {
		case !known:
			out = append(out, w)
		case translated != "":
			out = append(out, translated)
		}
	}
	return strings.Join(out, " ")
}

// model1 has an entry for each two words that occur in the same pair of
// sentences.
type model1 struct {
	source, target wordList
	sentences      []aligned
	entriesOf      [][]int // by source word
	targetOf       []int   // by entry
	sourceOf       []int
	prob           []float64 // of the target word, given the source word
	expected       []float64 // occurrences of the target word that come from the source word
	occurs         []int     // of each source word
}

// aligned are the entries (len(target), len(source)) of a pair of sentences;
// the last source word is noWord.
type aligned struct {
	entries []int32
	sources int
}

// noWord is the source word for "none".
const noWord = 0

// wordList numbers words in order of appearance.
type wordList struct {
	words []string
	ids   map[string]int
}

func (l *wordList) id(word string) int {
	if l.ids == nil {
		l.ids = map[string]int{}
	}
	id, ok := l.ids[word]
	if !ok {
		id = len(l.words)
		l.words, l.ids[word] = append(l.words, word), id
	}
	return id
}

func newModel1(pairs iter.Seq2[string, string]) *model1 {
	m := &model1{}
	m.source.id("") // noWord: words of a text are not empty
	entry := map[[2]int]int32{}
	taken := 0
	for from, to := range pairs {
		source, target := strings.Fields(from), strings.Fields(to)
		if taken == dictionaryPairs {
			break
		}
		if max(len(source), len(target)) > dictionaryWords {
			continue
		}
		taken++
		a := aligned{sources: len(source) + 1}
		ids := make([]int, a.sources)
		for i, w := range source {
			ids[i] = m.source.id(w)
		}
		for len(m.occurs) < len(m.source.words) {
			m.occurs, m.entriesOf = append(m.occurs, 0), append(m.entriesOf, nil)
		}
		for _, s := range ids {
			m.occurs[s]++
		}
		for _, w := range target {
			t := m.target.id(w)
			for _, s := range ids {
				e, ok := entry[[2]int{s, t}]
				if !ok {
					e = int32(len(m.targetOf))
					entry[[2]int{s, t}] = e
					m.targetOf, m.sourceOf = append(m.targetOf, t), append(m.sourceOf, s)
					m.entriesOf[s] = append(m.entriesOf[s], int(e))
				}
				a.entries = append(a.entries, e)
			}
		}
		m.sentences = append(m.sentences, a)
	}
	m.prob, m.expected = make([]float64, len(m.targetOf)), make([]float64, len(m.targetOf))
	for e := range m.prob {
		m.prob[e] = 1 // uniform: the first round divides
	}
	return m
}

// round does one round of expectation and maximisation.
func (m *model1) round() {
	clear(m.expected)
	for _, a := range m.sentences {
		for row := range slices.Chunk(a.entries, a.sources) { // one per target word
			sum := 0.0
			for _, e := range row {
				sum += m.prob[e]
			}
			for _, e := range row {
				m.expected[e] += m.prob[e] / sum
			}
		}
	}
	for _, entries := range m.entriesOf {
		sum := 0.0
		for _, e := range entries {
			sum += m.expected[e]
		}
		for _, e := range entries {
			m.prob[e] = m.expected[e] / sum
		}
	}
}
