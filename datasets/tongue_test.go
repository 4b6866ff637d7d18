package datasets

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Records of trainings rest on these languages: every sentence, in each of their grammars, stays the
// same to the bit, with vocabularies apart and shared.
func TestLanguagesStay(t *testing.T) {
	sum := sha256.New()
	for _, shared := range []bool{false, true} {
		s := testkit.Must(NewMultilingual(Config{
			Seed: 3, Translation: TranslationConfig{HeldOut: 50, Shared: shared},
			Multilingual: MultilingualConfig{Languages: MaxLanguages, Pairs: 20_000},
		}))(t)
		for l, language := range s.Languages() {
			fmt.Fprintln(sum, language.Name, s.Pairs(l, Train), s.Pairs(l, HeldOut))
		}
	}
	testkit.Equal(t, fmt.Sprintf("%x", sum.Sum(nil)[:8]), "c016009da064f72e", "digest")
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
		testkit.EqualAll(t, m.Encode(text), want, "%q", text)
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
		testkit.Equal(t, m.Decode(c.ids), c.want, "%v reads", c.ids)
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
