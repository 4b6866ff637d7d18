package datasets

import (
	"slices"

	"gpipebench/nn/philox"
)

// typology is a language's grammar. Every language expresses all of a meaning,
// so the target's sentence is a function of any source's sentence.
type typology struct {
	name string

	// orders are the possible orders of subject S, verb V, object O, place P
	// and adverb A. A language with several chooses freely among them, and
	// marks its objects.
	orders []string

	adjectiveAfter, numeralAfter, postpositions bool

	definite, plural, past, negation, object marker // past applies to every tense but the present

	// bareAfterNumeral omits the plural with a numeral.
	bareAfterNumeral bool

	// dropsPronouns expresses them by the verb's ending.
	dropsPronouns bool

	// classes is the number of classes of nouns, with which articles,
	// adjectives and plurals agree, articles also in number; verbs then agree
	// with the subject in number.
	classes int
}

// marker is the way in which a feature is expressed.
type marker uint8

const (
	unmarked marker = iota
	before          // a particle before the phrase
	after
	prefix
	suffix
	fused   // a separate form
	doubled // the word twice
)

func (m marker) onWord() bool { return m == prefix || m == suffix }

// typologies are the source languages' grammars. None has the target's word
// order. Which of them has the largest corpus is drawn.
var typologies = [MaxLanguages]typology{
	{name: "agglutinating SOV", orders: []string{"SOPAV", "OSPAV"}, postpositions: true, bareAfterNumeral: true,
		definite: suffix, plural: suffix, past: suffix, negation: suffix, object: suffix},
	{name: "isolating VSO", orders: []string{"VSOPA"}, adjectiveAfter: true,
		definite: before, plural: before, past: before, negation: before},
	{name: "pro-drop SOV", orders: []string{"ASOPV"}, adjectiveAfter: true, postpositions: true, dropsPronouns: true,
		definite: suffix, plural: suffix, past: fused, negation: prefix},
	{name: "doubling SVO", orders: []string{"ASVOP"}, adjectiveAfter: true, numeralAfter: true, bareAfterNumeral: true,
		definite: after, plural: doubled, past: after, negation: before},
	{name: "fusing VOS", orders: []string{"VOPSA"}, adjectiveAfter: true,
		definite: before, plural: fused, past: prefix, negation: after},
	{name: "prefixing OSV", orders: []string{"POSVA"}, numeralAfter: true, postpositions: true,
		definite: after, plural: prefix, past: suffix, negation: after},
	{name: "fusing OVS", orders: []string{"APOVS"}, numeralAfter: true, dropsPronouns: true,
		definite: suffix, plural: fused, past: fused, negation: before},
	{name: "case-marking VSO", orders: []string{"AVSOP", "AVOSP"}, adjectiveAfter: true, numeralAfter: true, postpositions: true,
		definite: suffix, plural: after, past: after, negation: prefix, object: after},
}

// targetTypology is the target language's grammar.
var targetTypology = typology{
	name: "target", orders: []string{"SVOPA"},
	definite: before, plural: suffix, past: suffix, negation: before, classes: 3,
}

// tongue is an invented language: a grammar and a lexicon. Words are ids of
// morphemes.
type tongue struct {
	typology

	nouns                                                       []noun
	verbs                                                       [][tenses]int32 // equal unless fused
	adjectives, adverbs, adpositions, numerals, names, pronouns []int32

	articles  [][2][2]int32 // by class, definite or not and plural or not; without classes all the same, and only if definite
	plurals   []int32       // by class
	endings   []int32       // of adjectives, by class
	marks     [tenses]int32
	not       int32
	objectOf  int32
	verbOfAll int32 // the verb's plural
}

type noun struct {
	class            int
	singular, plural int32 // equal unless fused
}

// newTongue makes up a language's words and adds them to the vocabulary; names
// are given.
func newTongue(t typology, nouns int, names []string, s *speller, vocabulary *morphemes) *tongue {
	g := &tongue{typology: t}
	add := vocabulary.add
	words := func(n int, spell func() string) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = add(spell())
		}
		return ids
	}
	mark := func(m marker) int32 {
		switch m {
		case before, after:
			return add(s.particle())
		case prefix:
			return add(s.affix() + "-")
		case suffix:
			return add("-" + s.affix())
		}
		return 0
	}
	classes := max(t.classes, 1)
	for range nouns {
		n := noun{class: s.random.Intn(classes), singular: add(s.stem())}
		n.plural = n.singular
		if t.plural == fused {
			n.plural = add(s.stem())
		}
		g.nouns = append(g.nouns, n)
	}
	for range verbsOf(nouns) {
		id := add(s.stem())
		v := [tenses]int32{id, id, id}
		if t.past == fused {
			v[past], v[future] = add(s.stem()), add(s.stem())
		}
		g.verbs = append(g.verbs, v)
	}
	g.adjectives = words(adjectivesOf(nouns), s.stem)
	g.adverbs = words(numAdverbs, s.stem)
	g.adpositions = words(numAdpositions, s.particle)
	g.numerals = words(numNumerals, s.particle)
	if t.dropsPronouns {
		g.pronouns = words(numPronouns, func() string { return "-" + s.affix() })
	} else {
		g.pronouns = words(numPronouns, s.particle)
	}
	for _, n := range names {
		g.names = append(g.names, add(n))
	}
	for range classes {
		if t.classes == 0 {
			the := mark(t.definite)
			g.articles = [][2][2]int32{{{}, {the, the}}}
		} else {
			a, the, these := mark(t.definite), mark(t.definite), mark(t.definite)
			g.articles = append(g.articles, [2][2]int32{{a, 0}, {the, these}})
			g.endings = append(g.endings, mark(suffix))
		}
		g.plurals = append(g.plurals, mark(t.plural))
	}
	g.marks[past], g.marks[future] = mark(t.past), mark(t.past)
	g.not, g.objectOf = mark(t.negation), mark(t.object)
	if t.classes > 0 {
		g.verbOfAll = mark(suffix)
	}
	return g
}

// say returns the sentence of a meaning. random decides what the grammar leaves
// open.
func (g *tongue) say(m *meaning, random *philox.Stream) []int32 {
	var ids []int32
	for _, part := range g.orders[random.Intn(len(g.orders))] {
		switch {
		case part == 'S' && !(g.dropsPronouns && m.subject.kind == pronounPhrase):
			ids = append(ids, g.phrase(&m.subject, false)...)
		case part == 'V':
			ids = append(ids, g.verb(m)...)
		case part == 'O' && m.object != nil:
			ids = append(ids, g.phrase(m.object, true)...)
		case part == 'P' && m.place != nil:
			at := before
			if g.postpositions {
				at = after
			}
			ids = append(ids, beside(g.phrase(m.place, false), at, g.adpositions[m.relation])...)
		case part == 'A' && m.adverb >= 0:
			ids = append(ids, g.adverbs[m.adverb])
		}
	}
	return ids
}

// beside adds a mark, if there is one, at the place that its marker determines.
func beside(ids []int32, m marker, mark int32) []int32 {
	switch {
	case mark == 0:
	case m == before || m == prefix:
		return slices.Insert(ids, 0, mark)
	case m == after || m == suffix:
		return append(ids, mark)
	}
	return ids
}

func (g *tongue) phrase(p *phrase, object bool) []int32 {
	objectMark := g.objectOf
	if !object {
		objectMark = 0
	}
	switch p.kind {
	case namePhrase:
		return beside([]int32{g.names[p.head]}, g.object, objectMark)
	case pronounPhrase:
		return []int32{g.pronouns[p.head]}
	}
	n := g.nouns[p.head]
	number := 0
	if p.plural {
		number = 1
	}
	article := g.articles[n.class][0][number]
	if p.definite {
		article = g.articles[n.class][1][number]
	}
	word, pluralMark := []int32{n.singular}, int32(0)
	if p.plural && !(p.number >= 0 && g.bareAfterNumeral) {
		word[0], pluralMark = n.plural, g.plurals[n.class]
		if g.plural == doubled {
			word = []int32{n.singular, n.singular}
		}
	}
	// The plural is nearest, then the article, then the case.
	marked := func(ids []int32, onWord bool) []int32 {
		for _, x := range []struct {
			m    marker
			mark int32
		}{{g.plural, pluralMark}, {g.definite, article}, {g.object, objectMark}} {
			if x.m.onWord() == onWord {
				ids = beside(ids, x.m, x.mark)
			}
		}
		return ids
	}
	ids := marked(word, true)
	var adjectives []int32
	for _, a := range p.adjectives {
		adjectives = append(adjectives, g.adjectives[a])
		if g.classes > 0 {
			adjectives = append(adjectives, g.endings[n.class])
		}
	}
	if g.adjectiveAfter {
		ids = append(ids, adjectives...)
	} else {
		ids = append(adjectives, ids...)
	}
	if p.number >= 0 {
		at := before
		if g.numeralAfter {
			at = after
		}
		ids = beside(ids, at, g.numerals[p.number])
	}
	return marked(ids, false)
}

func (g *tongue) verb(m *meaning) []int32 {
	not := int32(0)
	if m.negated {
		not = g.not
	}
	ids := []int32{g.verbs[m.verb][m.tense]}
	marked := func(onWord bool) {
		if g.past.onWord() == onWord {
			ids = beside(ids, g.past, g.marks[m.tense])
		}
		if g.negation.onWord() == onWord {
			ids = beside(ids, g.negation, not)
		}
	}
	marked(true)
	if g.classes > 0 && m.subject.plural {
		ids = append(ids, g.verbOfAll)
	}
	if g.dropsPronouns && m.subject.kind == pronounPhrase {
		ids = append(ids, g.pronouns[m.subject.head])
	}
	marked(false)
	return ids
}
