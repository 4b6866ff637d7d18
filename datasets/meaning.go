package datasets

import (
	"slices"

	"gpipebench/nn/philox"
)

// meaning is the content of a sentence, independent of language: who does what
// to whom, where and how, when, or that it does not happen.
type meaning struct {
	subject  phrase
	verb     int // the first half of the verbs takes an object, the second does not
	tense    tense
	negated  bool
	object   *phrase
	relation int // of the place: an adposition
	place    *phrase
	adverb   int // -1: none
}

// phrase is a person or thing.
type phrase struct {
	kind       phraseKind
	head       int // the noun, name or pronoun
	plural     bool
	number     int // which numeral, -1: none; a numeral implies the plural
	definite   bool
	adjectives []int // up to two
}

type phraseKind uint8

const (
	nounPhrase phraseKind = iota
	namePhrase
	pronounPhrase // subjects only
)

type tense uint8

const (
	present tense = iota
	past
	future
	tenses
)

// Numbers of words of each kind, except nouns, verbs and adjectives, whose
// numbers the configuration determines. The last half of the pronouns is
// plural.
const (
	numNames       = 24
	numAdverbs     = 8
	numAdpositions = 6
	numNumerals    = 5
	numPronouns    = 6
)

// wordSkew is the exponent of Zipf's law that nouns, verbs, adjectives and
// names follow.
const wordSkew = 0.8

// speaker draws meanings.
type speaker struct {
	nouns, transitive, intransitive, adjectives, names []uint64 // cumulated probabilities
}

func newSpeaker(nouns int) *speaker {
	verbs := verbsOf(nouns)
	return &speaker{
		nouns:        zipf(nouns, wordSkew),
		transitive:   zipf(verbs/2, wordSkew),
		intransitive: zipf(verbs-verbs/2, wordSkew),
		adjectives:   zipf(adjectivesOf(nouns), wordSkew),
		names:        zipf(numNames, wordSkew),
	}
}

func verbsOf(nouns int) int      { return nouns / 2 }
func adjectivesOf(nouns int) int { return nouns * 3 / 8 }

// say draws a meaning.
func (s *speaker) say(random *philox.Stream) meaning {
	m := meaning{
		subject: s.phrase(random, true),
		tense:   tense(random.Intn(int(tenses))),
		negated: oneIn(random, 5),
		adverb:  -1,
	}
	if !oneIn(random, 4) {
		m.verb = drawn(random, s.transitive)
		m.object = new(s.phrase(random, false))
	} else {
		m.verb = len(s.transitive) - 1 + drawn(random, s.intransitive)
	}
	if oneIn(random, 3) {
		m.relation = random.Intn(numAdpositions)
		m.place = new(s.phrase(random, false))
	}
	if oneIn(random, 3) {
		m.adverb = random.Intn(numAdverbs)
	}
	return m
}

func (s *speaker) phrase(random *philox.Stream, subject bool) phrase {
	p := phrase{number: -1}
	kind := random.Intn(10)
	switch {
	case kind < 2:
		p.kind, p.head = namePhrase, drawn(random, s.names)
		return p
	case kind < 4 && subject:
		p.kind, p.head = pronounPhrase, random.Intn(numPronouns)
		p.plural = p.head >= numPronouns/2
		return p
	}
	p.head = drawn(random, s.nouns)
	p.definite = oneIn(random, 2)
	if oneIn(random, 6) {
		p.number = random.Intn(numNumerals)
	}
	p.plural = p.number >= 0 || oneIn(random, 3)
	for len(p.adjectives) < 2 && oneIn(random, 3) {
		if a := drawn(random, s.adjectives); !slices.Contains(p.adjectives, a) {
			p.adjectives = append(p.adjectives, a)
		}
	}
	return p
}

func oneIn(random *philox.Stream, n int) bool { return random.Intn(n) == 0 }

// drawn returns a rank drawn from a cumulated distribution.
func drawn(random *philox.Stream, cum []uint64) int {
	u := uint64(random.Uint32())
	rank, _ := slices.BinarySearch(cum[1:], u+1)
	return rank
}
