package datasets

import (
	"fmt"
	"math"

	"gpipebench/nn/philox"
)

// multilingualHeldOut is how many pairs of each language are held out by default.
const multilingualHeldOut = 200

// NewMultilingual returns the synthetic-translation source: sentences in invented
// languages, which differ in words, order of words and how they mark number,
// tense, negation, definiteness and objects, and their translations into one
// more. It is what GPipe's translation from 102 languages to English is about, in
// small (Huang et al. 2019, section 5): some languages have many pairs, others
// few (see MultilingualConfig.Skew).
//
// A sentence is a meaning (drawn; see speaker) in the words and the grammar of a
// language. Each language says all of it, so the translation is a function of
// the source's sentence, without an error; but not word by word: the target's
// order is no other's, its nouns fall into classes that articles, adjectives and
// plurals agree with and that no source shows, and its verbs agree with the
// subject. Names are the same everywhere; no other stem or particle is in two
// languages, and affixes may be alike by chance.
//
// The held-out sentences say the same in every language, so that scores can be
// compared, each something else; and the training part of no language has any of
// them. Which grammar has which corpus, all words and all sentences are drawn by
// the seed. A larger Pairs adds to the corpora that a smaller one has.
func NewMultilingual(c Config) (*Translation, error) {
	if err := c.validateTranslation(); err != nil {
		return nil, err
	}
	if err := c.Multilingual.validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	w := newWorld(c)
	held := w.heldOut(orDefault(c.Translation.HeldOut, multilingualHeldOut))
	var corpora []corpus
	for r, g := range w.tongues {
		size := math.Round(float64(c.Multilingual.Pairs) * math.Pow(float64(r+1), -c.Multilingual.Skew))
		corpora = append(corpora, w.corpus(g, max(int(size), 1), held))
	}
	return newTranslation("synthetic-translation", w.sourceWords, w.targetWords, corpora, c)
}

// world is some languages and what there is to be said.
type world struct {
	seed                     uint64
	speaker                  *speaker
	tongues                  []*tongue // the one with the largest corpus first
	target                   *tongue
	sourceWords, targetWords *morphemes // one if shared
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
	// The target comes first, and so does not depend on how many there are.
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

// corpus is n pairs of a language, none of them held out, and behind them those
// that are.
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
