package gettext

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/internal/testkit"
)

func mustRead(t *testing.T, dir string, languages ...string) *Corpus {
	t.Helper()
	return testkit.Must(Read(dir, languages))(t)
}

// write writes a catalog with its description and other messages.
func write(t *testing.T, dir, language, name string, messages ...entry) {
	t.Helper()
	gettexttest.Write(t, dir, language, name, gettexttest.Catalog(binary.BigEndian, append([]entry{gettexttest.UTF8}, messages...)...))
}

// What is left out, by every rule, and what is taken, in the order of catalogs.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "de", "b.mo",
		entry{"Open the FILE!", "noch einmal"},        // repeated: a.mo comes first
		entry{"Close the window", "Close The window"}, // untranslated
		entry{"Copy %s to %s", "%s nach %s kopieren"},
		entry{"Nothing to see here", "???"},
		entry{"<b>One</b> <b>two</b> <unknown>", "x"},
		entry{"One <br> <br> two", "Eins zwei"}, // short
		entry{strings.Repeat("long ", MaxText), "lang"},
		entry{"Two words", "Zwei Wörter"},
		entry{"Two words - 1", "Zwei Wörter - 1"}, // short: two with a letter
		entry{"This is new", "%d ist neu"})
	write(t, dir, "de", "a.mo", entry{"_Open the file", "Datei _öffnen"}, entry{"Save it as...", "Speichern als..."})
	write(t, dir, "de", "notes.txt", entry{"Not a catalog at all", "x"})
	write(t, dir, "sr@latin", "a.mo", entry{"Open the file", "Otvori datoteku"})
	write(t, dir, "en_GB", "a.mo", entry{"The colour of it", "The colour of it"})
	gettexttest.Write(t, dir, "ka", "a.mo", gettexttest.Catalog(binary.LittleEndian, entry{"", "charset=GEORGIAN-PS"}, entry{"Open the file", "\xff"}))
	gettexttest.Write(t, dir, "fr", "a.mo", gettexttest.Catalog(binary.LittleEndian, entry{"", "charset=ISO-8859-1"}, entry{"It is here already", "C'est d\xe9j\xe0 l\xe0"}))
	for _, other := range []string{"locale.alias", "empty/LC_MESSAGES/x", "times/LC_TIME/x.mo", ".hidden/LC_MESSAGES/x.mo"} {
		path := filepath.Join(dir, other)
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	testkit.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "xx")))

	c := mustRead(t, dir)
	var texts []string
	for _, s := range c.English {
		texts = append(texts, s.Text)
	}
	if want := []string{"Open the file", "Save it as...", "Open the FILE!", "Close the window", "Nothing to see here", "This is new", "It is here already"}; !slices.Equal(texts, want) {
		t.Errorf("English %q, want %q", texts, want)
	}
	want := []Language{
		{Name: "de", Pairs: []Pair{{0, "Datei öffnen"}, {1, "Speichern als..."}}},
		{Name: "fr", Pairs: []Pair{{6, "C'est déjà là"}}},
		{Name: "ka"},
		{Name: "sr@latin", Pairs: []Pair{{0, "Otvori datoteku"}}},
	}
	testkit.EqualDeep(t, c.Languages, want, "languages")
	// Named languages, in their order, have the same pairs.
	some := mustRead(t, dir, "sr@latin", "de")
	if len(some.Languages) != 2 || some.Languages[0].Name != "sr@latin" || !slices.Equal(some.Languages[1].Pairs, want[0].Pairs) {
		t.Errorf("named: %+v", some)
	}
}

// sample is a corpus of random languages over one list of sentences, in several
// writings.
func sample(t *testing.T, random *rand.Rand, languages, sentences int) *Corpus {
	t.Helper()
	dir := t.TempDir()
	for l := range languages {
		var messages []entry
		for i := range sentences {
			if random.IntN(languages) < l {
				continue
			}
			english := gettexttest.Sentence(i)
			switch random.IntN(4) {
			case 0:
				english = strings.ToUpper(english)
			case 1:
				english = strings.TrimSuffix(english, ".") + "..."
			case 2:
				english = "<b>" + english + "</b>"
			}
			messages = append(messages, entry{english, fmt.Sprintf("Satz Nummer %d", i)})
		}
		write(t, dir, fmt.Sprintf("l%d", l), "a.mo", messages...)
	}
	return mustRead(t, dir)
}

// No English sentence is held out in one language and trained on in another,
// in whichever writing; the languages' parts have all their pairs, but for
// spare ones, and about a tenth of all is held out.
func TestSplit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		c := sample(t, random, 6, 1000)
		side := map[string]string{} // by folded sentence
		trained, out := 0, 0
		for i := range c.Languages {
			l := &c.Languages[i]
			most := []int{1 << 20, 20, 0}[i%3]
			train, heldOut := c.Split(l, most)
			_, all := c.Split(l, len(l.Pairs))
			if len(train)+len(all) != len(l.Pairs) || !slices.Equal(heldOut, all[:min(most, len(all))]) {
				t.Fatalf("%d and %d of %d, of %d", len(train), len(heldOut), len(all), len(l.Pairs))
			}
			for name, part := range map[string][]Pair{"train": train, "held out": heldOut} {
				for _, p := range part {
					text := fold(c.English[p.English].Text)
					if before, ok := side[text]; ok && before != name {
						t.Fatalf("%q: %s and %s", text, before, name)
					}
					side[text] = name
				}
			}
			trained, out = trained+len(train), out+len(all)
		}
		if part := float64(out) / float64(trained+out); part < 0.07 || part > 0.13 {
			t.Errorf("%v of the pairs are held out", part)
		}
	}
}

// The part of a sentence depends on nothing but itself.
func TestSplitIsStable(t *testing.T) {
	heldOut := func(c *Corpus) map[string]bool {
		out := map[string]bool{}
		for i := range c.Languages {
			_, part := c.Split(&c.Languages[i], 1<<20)
			for _, p := range part {
				out[fold(c.English[p.English].Text)] = true
			}
		}
		return out
	}
	small, large := heldOut(sample(t, rand.New(rand.NewPCG(3, 1)), 2, 300)), heldOut(sample(t, rand.New(rand.NewPCG(3, 2)), 2, 1000))
	for text := range small {
		if !large[text] {
			t.Errorf("%q is held out only among fewer sentences", text)
		}
	}
	if len(small) < 10 || len(large) <= len(small) {
		t.Errorf("%d and %d held out", len(small), len(large))
	}
}

// A link stands for what it leads to, also out of the directory.
func TestReadFollowsLinks(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, elsewhere, "de", "a.mo", entry{"Open the file", "Datei öffnen"})
	testkit.NoError(t, os.Symlink(filepath.Join(elsewhere, "de"), filepath.Join(dir, "de_AT")))
	if c := mustRead(t, dir); len(c.Languages) != 1 || c.Languages[0].Name != "de_AT" || len(c.Languages[0].Pairs) != 1 {
		t.Errorf("%+v", c.Languages)
	}
}

func TestIsEnglish(t *testing.T) {
	for language, want := range map[string]bool{"en": true, "en_GB": true, "en@boldquot": true, "en.UTF-8": true, "ang": false, "enm": false, "de": false, "": false} {
		testkit.Equal(t, IsEnglish(language), want, "%s is English", language)
	}
}
