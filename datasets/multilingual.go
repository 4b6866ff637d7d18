package datasets

import (
	"fmt"
	"math"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn/philox"
)

// NewMultilingual returns the synthetic-translation source: sentences in
// invented languages, which differ in words, word order and the marking of
// number, tense, negation, definiteness and objects, and their translations
// into one more language. It is a small version of GPipe's translation from 102
// languages to English (Huang et al. 2019, section 5): some languages have many
// pairs, others few (see MultilingualConfig.Pairs).
//
// A sentence expresses a meaning (drawn; see speaker) in the words and the
// grammar of a language. Each language expresses all of it, so the translation
// is a function of the source's sentence, without exception; but it is not word
// by word: the target has a word order of its own, its nouns have classes with
// which articles, adjectives and plurals agree and which no source shows, and
// its verbs agree with the subject. Names are the same everywhere; no other
// stem or particle is in two languages, and affixes may coincide by chance.
//
// The held-out sentences have the same meanings in every language, all
// different, so that scores are comparable; no language has any of them in its
// training part. The seed determines which grammar has which corpus, all words
// and all sentences. A larger Pairs extends the corpora of a smaller one.
func NewMultilingual(c Config) (*Translation, error) {
	if err := c.validateTranslation(); err != nil {
		return nil, err
	}
	if err := c.Multilingual.validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	w := newWorld(c)
	held := w.heldOut(c.Translation.HeldOut)
	var corpora []corpus
	for r, g := range w.tongues {
		if only := c.Multilingual.Only; only != 0 && only != r+1 {
			continue
		}
		size := math.Round(float64(c.Multilingual.Pairs) * exactmath.Pow(float64(r+1), -2))
		corpora = append(corpora, w.corpus(g, max(int(size), 1), held))
	}
	return newTranslation("synthetic-translation", w.sourceWords, w.targetWords, corpora, c)
}

// world is a set of languages and the means to draw their sentences.
type world struct {
	seed                     uint64
	speaker                  *speaker
	tongues                  []*tongue // the one with the largest corpus first
	target                   *tongue
	sourceWords, targetWords *morphemes // one and the same if shared
}

func newWorld(c Config) *world {
	w := &world{seed: c.Seed, speaker: newSpeaker(c.Multilingual.Nouns), sourceWords: &morphemes{}, targetWords: &morphemes{}}
	if c.Translation.Shared {
		w.targetWords = w.sourceWords
	}
	taken := map[string]bool{}
	spell := func(name string) *speller { return newSpeller(w.stream(name+"/words", 0), taken) }
	var names []string
	speller := spell("names")
	for range numNames {
		names = append(names, speller.name())
	}
	// The target comes first, so that it does not depend on the number of
	// languages.
	w.target = newTongue(targetTypology, c.Multilingual.Nouns, names, spell(targetTypology.name), w.targetWords)
	which := permutation(w.stream("typologies", 0), len(typologies))
	for _, i := range which[:c.Multilingual.Languages] {
		t := typologies[i]
		w.tongues = append(w.tongues, newTongue(t, c.Multilingual.Nouns, names, spell(t.name), w.sourceWords))
	}
	return w
}

func (w *world) stream(name string, i int) *philox.Stream {
	return philox.NewStream(philox.KeyOf(w.seed, "datasets/multilingual/"+name), uint64(i))
}

// saying is a meaning and its sentence in the target language.
type saying struct {
	meaning meaning
	ids     []int32
	text    string
}

func (w *world) say(random *philox.Stream) saying {
	s := saying{meaning: w.speaker.say(random)}
	s.ids = w.target.say(&s.meaning, random)
	s.text = w.targetWords.Decode(s.ids)
	return s
}

// heldOut draws n different sayings.
func (w *world) heldOut(n int) []saying {
	var held []saying
	seen := map[string]bool{}
	random := w.stream("held-out", 0)
	for len(held) < n {
		if s := w.say(random); !seen[s.text] {
			seen[s.text] = true
			held = append(held, s)
		}
	}
	return held
}

// corpus returns n pairs of a language, none of them held out, followed by
// those that are.
func (w *world) corpus(g *tongue, n int, held []saying) corpus {
	from := corpus{name: g.name, heldOut: len(held)}
	add := func(s *saying, random *philox.Stream) {
		ids := g.say(&s.meaning, random)
		from.source = append(from.source, w.sourceWords.Decode(ids))
		from.target = append(from.target, s.text)
		from.sourceIDs = append(from.sourceIDs, ids)
		from.targetIDs = append(from.targetIDs, s.ids)
	}
	never := map[string]bool{}
	for _, s := range held {
		never[s.text] = true
	}
	for i := range n {
		random := w.stream(fmt.Sprintf("%s/training", g.name), i)
		s := w.say(random)
		for never[s.text] {
			s = w.say(random)
		}
		add(&s, random)
	}
	for i := range held {
		add(&held[i], w.stream(fmt.Sprintf("%s/held-out", g.name), i))
	}
	return from
}
