package datasets

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/internal/testkit"
)

// sizes are languages from high to low resource.
var sizes = map[string]int{"fr": 800, "pt_BR": 300, "sr@latin": 90, "zh_TW": 40}

// Each language is translated into English. No English sentence is held out in
// one language and trained on in another; a later file changes no other part.
func TestGettext(t *testing.T) {
	dir := gettexttest.Folder(t, sizes)
	s := testkit.Must(OpenGettext(dir, Config{}))(t)
	side := map[string]Split{}
	var names []string
	for l, language := range s.Languages() {
		names = append(names, language.Name)
		if language.Train+language.HeldOut != sizes[language.Name] || language.HeldOut < 1 || language.Dropped > 0 {
			t.Errorf("%+v of %d", language, sizes[language.Name])
		}
		for _, split := range []Split{Train, HeldOut} {
			for _, p := range s.Pairs(l, split) {
				if before, ok := side[p.TargetText]; ok && before != split {
					t.Fatalf("%q: %v and %v", p.TargetText, before, split)
				}
				side[p.TargetText] = split
				if !strings.Contains(p.SourceText, language.Name) || s.Source().Decode(p.Source) != p.SourceText || s.Target().Decode(p.Target) != p.TargetText {
					t.Fatalf("%q, %q: read as %q, %q", p.SourceText, p.TargetText, s.Source().Decode(p.Source), s.Target().Decode(p.Target))
				}
			}
		}
	}
	testkit.EqualAll(t, names, []string{"fr", "pt_BR", "sr@latin", "zh_TW"}, "languages")
	if some := testkit.Must(OpenGettext(dir+",zh_TW,fr", Config{}))(t); some.Languages()[0].Name != "zh_TW" || !reflect.DeepEqual(textsOf(some.Pairs(1, HeldOut)), textsOf(s.Pairs(0, HeldOut))) {
		t.Errorf("named languages: %+v", some.Languages())
	}
	capped := testkit.Must(OpenGettext(dir, Config{Translation: TranslationConfig{HeldOut: 5}}))(t)
	if l := capped.Languages()[0]; l.HeldOut != 5 || l.Train != s.Languages()[0].Train || !reflect.DeepEqual(textsOf(capped.Pairs(0, HeldOut)), textsOf(s.Pairs(0, HeldOut))[:5]) {
		t.Errorf("at most 5 held out: %+v", l)
	}
	// One language alone has the same sentences, in the same tokens.
	alone := testkit.Must(OpenGettext(dir, Config{Translation: TranslationConfig{Only: "pt_BR"}}))(t)
	if len(alone.Languages()) != 1 || !reflect.DeepEqual(alone.Pairs(0, HeldOut), s.Pairs(1, HeldOut)) || !reflect.DeepEqual(alone.Pairs(0, Train), s.Pairs(1, Train)) || alone.Vocab() != s.Vocab() {
		t.Errorf("one language alone: %+v", alone.Languages())
	}
	// Both sides may share a vocabulary.
	if both := testkit.Must(OpenGettext(dir, Config{Translation: TranslationConfig{Shared: true}}))(t); both.Source() != both.Target() || both.Target().Decode(both.Target().Encode("OPENfr")) != "OPENfr" {
		t.Error("vocabularies are not shared")
	}
	// The part of an example in a mini-batch does not depend on the seed.
	other := testkit.Must(OpenGettext(dir, Config{Seed: 7}))(t)
	testkit.EqualDeep(t, other.pairs, s.pairs, "another seed has other pairs")
}

func textsOf(pairs []Pair) (out [][2]string) {
	for _, p := range pairs {
		out = append(out, [2]string{p.SourceText, p.TargetText})
	}
	return out
}

// A vocabulary has at most its size; half of it is characters, at most. Words of
// small languages count more, the more even the languages' shares are.
func TestGettextVocabulary(t *testing.T) {
	dir := gettexttest.Folder(t, map[string]int{"fr": 900, "small": 60})
	var joins []int
	for _, temperature := range []float64{1, math.Inf(1)} {
		s := testkit.Must(OpenGettext(dir, Config{SeqLen: 200, Translation: TranslationConfig{Vocab: 90, Temperature: temperature}}))(t)
		if s.Vocab() > 90 || s.SourceVocab() != 90 {
			t.Errorf("vocabularies of %d and %d, asked for 90", s.SourceVocab(), s.Vocab())
		}
		of := 0
		for id := firstPiece; int(id) < s.SourceVocab(); id++ {
			if strings.Contains(s.Source().Piece(id), "mal") {
				of++
			}
		}
		joins = append(joins, of)
	}
	if joins[0] >= joins[1] {
		t.Errorf("%d pieces of the small language by size, %d with equal shares: want more", joins[0], joins[1])
	}
	few := testkit.Must(OpenGettext(dir, Config{SeqLen: 200, Translation: TranslationConfig{Vocab: 20}}))(t)
	testkit.Equal(t, len(slices.DeleteFunc(pieces(few.Source()), func(p string) bool { return len(p) != 1 })), 20/2-int(firstPiece), "characters in a vocabulary of 20")
	testkit.Has(t, few.Source().Decode(few.Pairs(0, Train)[0].Source), unknownText)
}

// What is held out has no part in the vocabulary, and may have letters that it lacks.
func TestGettextVocabularyIsOfTheTrainingPart(t *testing.T) {
	dir := gettexttest.Folder(t, map[string]int{"de": 60})
	messages := []gettexttest.Message{gettexttest.UTF8}
	for _, p := range testkit.Must(OpenGettext(dir, Config{}))(t).Pairs(0, Train) {
		messages = append(messages, gettexttest.Message{p.TargetText, p.SourceText})
	}
	for _, p := range testkit.Must(OpenGettext(dir, Config{}))(t).Pairs(0, HeldOut) {
		messages = append(messages, gettexttest.Message{p.TargetText, "żółw"})
	}
	gettexttest.Write(t, dir, "de", "program.mo", gettexttest.Catalog(binary.LittleEndian, messages...))
	s := testkit.Must(OpenGettext(dir, Config{}))(t)
	p := s.Pairs(0, HeldOut)[0]
	testkit.Equal(t, s.Source().Decode(p.Source), strings.Repeat(unknownText, 4), "%q reads", p.SourceText)
}

// The words of a text are bounded, and independent of a map's order.
func TestCatalogWords(t *testing.T) {
	var all []string
	for i := range 50 {
		all = append(all, fmt.Sprintf("w%d often", i))
	}
	of := func() *catalogWords {
		c := newCatalogWords(1)
		c.most = 10
		c.add(all, 3)
		return c
	}
	c := of()
	if len(c.words) != 10 || c.words["often"] != 150 || c.characters['w'] != 150 {
		t.Errorf("%v", c.words)
	}
	for range 10 {
		testkit.EqualDeep(t, of(), c, "other words")
	}
}

func TestGettextErrors(t *testing.T) {
	dir := gettexttest.Folder(t, map[string]int{"de": 200, "xx": 1})
	if s := testkit.Must(OpenGettext(dir, Config{}))(t); len(s.Languages()) != 1 || !slices.Equal(s.LeftOut(), []string{"xx"}) {
		t.Errorf("%+v, left out %v; want a language with one sentence among these", s.Languages(), s.LeftOut())
	}
	for _, c := range []struct {
		argument string
		c        Config
		want     string
	}{
		{dir, Config{SeqLen: 2}, "gettext:" + dir + ": no language has sentences of up to 2 tokens to train on and others to hold out, want more catalogs"},
		{dir + ",xx", Config{}, "gettext:" + dir + ",xx: xx has no sentence of up to 64 tokens to train on, or none to hold out, want more catalogs"},
		{dir + ",de,xx", Config{}, "gettext:" + dir + ",de,xx: xx has no sentence of up to 64 tokens to train on, or none to hold out, want more catalogs"},
		{dir, Config{Translation: TranslationConfig{Only: "fr"}}, "gettext:" + dir + ": fr alone: want one of its languages"},
		{dir, Config{SeqLen: 1}, "sequence length 1, want 2 to 4096 for translation"},
		{dir, Config{Translation: TranslationConfig{Vocab: 5}}, "translation: vocabulary 5, want 6 to 65536"},
		{"", Config{}, `gettext:"": no directory, want gettext:DIR[,LANG...]`},
	} {
		_, err := OpenGettext(c.argument, c.c)
		testkit.Equal(t, fmt.Sprint(err), c.want, "%q", c.argument)
	}
}

func TestCatalogsOf(t *testing.T) {
	for spec, want := range map[string]string{
		"gettext": SystemCatalogs + " []", "gettext:": SystemCatalogs + " []", "gettext:,fr,pt_BR": SystemCatalogs + " [fr pt_BR]",
		"gettext:some/where": "some/where []", "gettext:.,sr@latin": ". [sr@latin]",
	} {
		dir, languages, err := CatalogsOf(spec)
		testkit.NoError(t, err, "%s", spec)
		testkit.Equal(t, fmt.Sprint(dir, " ", languages), want, "%s", spec)
	}
	_, _, err := CatalogsOf("text:x")
	testkit.Equal(t, fmt.Sprint(err), "data source text:x: want gettext:DIR[,LANG...]")
}

// A sentence of only long words, of a language whose others fit, does not end a
// training; a language of only such sentences is left out.
func TestGettextLongSentences(t *testing.T) {
	dir := gettexttest.Folder(t, map[string]int{"de": 200})
	messages := []gettexttest.Message{gettexttest.UTF8}
	for i := range 50 {
		messages = append(messages, gettexttest.Message{gettexttest.Sentence(i), strings.Repeat(fmt.Sprintf("%dx ", i), 100)})
	}
	gettexttest.Write(t, dir, "long", "a.mo", gettexttest.Catalog(binary.LittleEndian, messages...))
	if s := testkit.Must(OpenGettext(dir, Config{}))(t); len(s.Languages()) != 1 || s.Languages()[0].Name != "de" {
		t.Errorf("%+v", s.Languages())
	}
}
