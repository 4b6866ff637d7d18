package datasets

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/nn/philox"
)

// glossed is a language in which the name of every morpheme is its meaning.
type glossed struct {
	*tongue
	names map[int32]string
}

func gloss(t typology) glossed {
	vocabulary := &morphemes{}
	random := philox.NewStream(philox.KeyOf(1, "gloss"), 0)
	g := newTongue(t, 8, []string{"bababa", "bebebe"}, newSpeller(random, map[string]bool{}), vocabulary)
	names := map[int32]string{}
	call := func(id int32, name string) {
		if id != 0 && names[id] == "" {
			names[id] = name
		}
	}
	list := func(ids []int32, name string) {
		for i, id := range ids {
			call(id, fmt.Sprintf("%s%d", name, i))
		}
	}
	for i := range g.nouns {
		g.nouns[i].class = i % max(t.classes, 1) // not drawn
		call(g.nouns[i].singular, fmt.Sprintf("noun%d", i))
		call(g.nouns[i].plural, fmt.Sprintf("nouns%d", i))
	}
	for i, v := range g.verbs {
		call(v[present], fmt.Sprintf("verb%d", i))
		call(v[past], fmt.Sprintf("verbed%d", i))
		call(v[future], fmt.Sprintf("willverb%d", i))
	}
	list(g.adjectives, "adj")
	list(g.adverbs, "adv")
	list(g.adpositions, "at")
	list(g.numerals, "num")
	list(g.names, "name")
	list(g.pronouns, "pro")
	for class, a := range g.articles {
		of := ""
		if t.classes > 0 {
			of = fmt.Sprint(class)
		}
		call(a[0][0], "a"+of)
		call(a[1][0], "the"+of)
		call(a[1][1], "these"+of)
		call(g.plurals[class], "pl"+of)
		if t.classes > 0 {
			call(g.endings[class], "agr"+of)
		}
	}
	call(g.marks[past], "past")
	call(g.marks[future], "future")
	call(g.not, "not")
	call(g.objectOf, "obj")
	call(g.verbOfAll, "they")
	for id, name := range names {
		switch piece := vocabulary.Piece(id); {
		case strings.HasPrefix(piece, "-"):
			names[id] = "-" + name
		case strings.HasSuffix(piece, "-"):
			names[id] = name + "-"
		}
	}
	return glossed{g, names}
}

// say returns a sentence in glosses, in each of the language's orders.
func (g glossed) say(t *testing.T, m meaning) []string {
	var out []string
	for _, order := range g.orders {
		one := *g.tongue
		one.orders = []string{order}
		var words []string
		for _, id := range one.say(&m, philox.NewStream(philox.Key{}, 0)) {
			if g.names[id] == "" {
				t.Fatalf("%s says what has no gloss", g.name)
			}
			words = append(words, g.names[id])
		}
		text := strings.Join(words, " ")
		text = strings.ReplaceAll(text, " -", "-")
		out = append(out, strings.ReplaceAll(text, "- ", "-"))
	}
	return out
}

// the two adj1 adj2 noun3s did not verb0 a noun1 at0 name1, adv4
var fullMeaning = meaning{
	subject: phrase{head: 3, plural: true, number: 0, definite: true, adjectives: []int{1, 2}},
	verb:    0, tense: past, negated: true,
	object: &phrase{head: 1, number: -1},
	place:  &phrase{kind: namePhrase, head: 1, number: -1}, relation: 0,
	adverb: 4,
}

// pronoun 5 will verb2 the adj0 noun2s
var shortMeaning = meaning{
	subject: phrase{kind: pronounPhrase, head: 5, plural: true, number: -1},
	verb:    2, tense: future,
	object: &phrase{head: 2, plural: true, number: -1, definite: true, adjectives: []int{0}},
	adverb: -1,
}

// The sentences of two meanings in each grammar, for a reader to check.
func TestGrammars(t *testing.T) {
	for _, c := range []struct {
		t           typology
		full, short []string
	}{
		{targetTypology,
			[]string{"these0 num0 adj1-agr0 adj2-agr0 noun3-pl0 not verb0-past-they a1 noun1 at0 name1 adv4"},
			[]string{"pro5 verb2-future-they these2 adj0-agr2 noun2-pl2"}},
		{typologies[0],
			[]string{"num0 adj1 adj2 noun3-the noun1-obj name1 at0 adv4 verb0-past-not", "noun1-obj num0 adj1 adj2 noun3-the name1 at0 adv4 verb0-past-not"},
			[]string{"pro5 adj0 noun2-pl-the-obj verb2-future", "adj0 noun2-pl-the-obj pro5 verb2-future"}},
		{typologies[1],
			[]string{"not past verb0 the pl num0 noun3 adj1 adj2 noun1 at0 name1 adv4"},
			[]string{"future verb2 pro5 the pl noun2 adj0"}},
		{typologies[2],
			[]string{"adv4 num0 noun3-pl-the adj1 adj2 noun1 name1 at0 not-verbed0"},
			[]string{"noun2-pl-the adj0 willverb2-pro5"}},
		{typologies[3],
			[]string{"adv4 noun3 adj1 adj2 num0 the not verb0 past noun1 at0 name1"},
			[]string{"pro5 verb2 future noun2 noun2 adj0 the"}},
		{typologies[4],
			[]string{"past-verb0 not noun1 at0 name1 the num0 nouns3 adj1 adj2 adv4"},
			[]string{"future-verb2 the nouns2 adj0 pro5"}},
		{typologies[5],
			[]string{"name1 at0 noun1 adj1 adj2 pl-noun3 num0 the verb0-past not adv4"},
			[]string{"adj0 pl-noun2 the pro5 verb2-future"}},
		{typologies[6],
			[]string{"adv4 at0 name1 noun1 not verbed0 adj1 adj2 nouns3-the num0"},
			[]string{"adj0 nouns2-the willverb2-pro5"}},
		{typologies[7],
			[]string{"adv4 not-verb0 past noun3-the adj1 adj2 num0 pl noun1 obj name1 at0", "adv4 not-verb0 past noun1 obj noun3-the adj1 adj2 num0 pl name1 at0"},
			[]string{"verb2 future pro5 noun2-the adj0 pl obj", "verb2 future noun2-the adj0 pl obj pro5"}},
	} {
		g := gloss(c.t)
		if got := g.say(t, fullMeaning); !slices.Equal(got, c.full) {
			t.Errorf("%s:\n got %q\nwant %q", c.t.name, got, c.full)
		}
		if got := g.say(t, shortMeaning); !slices.Equal(got, c.short) {
			t.Errorf("%s:\n got %q\nwant %q", c.t.name, got, c.short)
		}
	}
}

// With few words, sentences would coincide if a grammar left something out: two
// meanings that differ in the target must differ in every language.
func TestEveryLanguageSaysAllOfAMeaning(t *testing.T) {
	c := Config{Multilingual: MultilingualConfig{Languages: MaxLanguages, Nouns: minNouns}}.withDefaults()
	w := newWorld(c)
	w.speaker.names = zipf(1, 1)
	sentences := 40_000
	if testing.Short() {
		sentences = 5000
	}
	for _, g := range w.tongues {
		target := map[string]string{}
		met := 0
		random := philox.NewStream(philox.KeyOf(1, "meanings"), 0)
		for range sentences {
			s := w.say(random)
			source := w.sourceWords.Decode(g.say(&s.meaning, random))
			before, ok := target[source]
			if ok {
				met++
				if before != s.text {
					t.Fatalf("%s: %q is both %q and %q", g.name, source, before, s.text)
				}
			}
			target[source] = s.text
		}
		if met < sentences/80 {
			t.Errorf("%s: only %d sentences came twice", g.name, met)
		}
	}
}

// Every sentence can be decoded again: a word's length determines its affixes.
func TestMorphemesComeBack(t *testing.T) {
	for _, shared := range []bool{false, true} {
		c := Config{Seed: 3, Multilingual: MultilingualConfig{Languages: MaxLanguages}, Translation: TranslationConfig{Shared: shared}}.withDefaults()
		w := newWorld(c)
		random := philox.NewStream(philox.KeyOf(1, "meanings"), 0)
		for i := range 4000 {
			s := w.say(random)
			if got := w.targetWords.Encode(s.text); !slices.Equal(got, s.ids) {
				t.Fatalf("%q comes back as %v, want %v", s.text, got, s.ids)
			}
			ids := w.tongues[i%MaxLanguages].say(&s.meaning, random)
			text := w.sourceWords.Decode(ids)
			if got := w.sourceWords.Encode(text); !slices.Equal(got, ids) {
				t.Fatalf("%q comes back as %v, want %v", text, got, ids)
			}
		}
	}
}

// No stem or particle is in two languages; names are in all.
func TestLexiconsAreApart(t *testing.T) {
	w := newWorld(Config{Multilingual: MultilingualConfig{Languages: MaxLanguages, Nouns: 300}}.withDefaults())
	owner := map[string]string{}
	for _, g := range append(slices.Clone(w.tongues), w.target) {
		vocabulary := w.sourceWords
		if g == w.target {
			vocabulary = w.targetWords
		}
		own := slices.Concat(g.adjectives, g.adverbs, g.adpositions, g.numerals, g.pronouns)
		for _, n := range g.nouns {
			own = append(own, n.singular)
		}
		for _, v := range g.verbs {
			own = append(own, v[:]...)
		}
		for _, id := range own {
			piece := vocabulary.Piece(id)
			if strings.HasPrefix(piece, "-") {
				continue
			}
			if o, taken := owner[piece]; taken && o != g.name {
				t.Fatalf("%s is in %s and in %s", piece, o, g.name)
			}
			owner[piece] = g.name
		}
		for i, id := range g.names {
			if got, want := vocabulary.Piece(id), w.targetWords.Piece(w.target.names[i]); got != want {
				t.Errorf("%s: name %d is %s, want %s", g.name, i, got, want)
			}
		}
	}
}

func TestMorphemesDecode(t *testing.T) {
	m := &morphemes{}
	stem, name, particle, pre, suf := m.add("tanak"), m.add("mirolu"), m.add("pox"), m.add("ob-"), m.add("-at")
	for text, want := range map[string][]int32{
		"tanak":           {stem},
		"obtanakat":       {pre, stem, suf},
		"tanakatat pox":   {stem, suf, suf, particle},
		"miroluat":        {name, suf},
		"tanaket":         {Unknown},
		"miroluat zzz ":   {name, suf, Unknown},
		"obtanaket pox":   {Unknown, particle},
		"a ob é tanakaté": {Unknown, Unknown, Unknown, Unknown},
		"":                nil,
	} {
		if got := m.Encode(text); !slices.Equal(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	for _, c := range []struct {
		ids  []int32
		want string
	}{
		{[]int32{Begin, pre, stem, suf, Pad, particle, End, stem}, "obtanakat pox"},
		{[]int32{suf, suf, stem, pre}, "atat tanak ob"}, // of no language
		{[]int32{stem, Unknown, 99, pre, -1}, "tanak \uFFFD \uFFFD ob\uFFFD"},
		{nil, ""},
	} {
		if got := m.Decode(c.ids); got != c.want {
			t.Errorf("%v reads %q, want %q", c.ids, got, c.want)
		}
	}
}

func FuzzMorphemes(f *testing.F) {
	m := &morphemes{}
	for _, p := range []string{"tanak", "mirolu", "pox", "ob-", "-at"} {
		m.add(p)
	}
	f.Add("obtanakat pox", []byte{4, 5, 3, 8})
	f.Add("a é \xff mirolu", []byte{0, 1, 2})
	f.Fuzz(func(t *testing.T, text string, raw []byte) {
		known := true
		for _, id := range m.Encode(text) {
			if id == Unknown {
				known = false
			} else if id < firstPiece || int(id) >= m.Size() {
				t.Fatalf("id %d", id)
			}
		}
		if want := strings.Join(strings.Fields(text), " "); known && m.Decode(m.Encode(text)) != want {
			t.Fatalf("%q comes back as %q", want, m.Decode(m.Encode(text)))
		}
		ids := make([]int32, len(raw))
		for i, b := range raw {
			ids[i] = int32(b) - 2
		}
		if strings.ContainsAny(m.Decode(ids), "\n<>-") {
			t.Fatalf("%v reads %q", ids, m.Decode(ids))
		}
	})
}
