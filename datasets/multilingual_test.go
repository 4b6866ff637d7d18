package datasets

import (
	"fmt"
	"reflect"
	"testing"

	"gpipebench/datasets/baseline"
	"gpipebench/internal/testkit"
)

// smallTask is a task that takes almost no time.
func smallTask() Config {
	return Config{Seed: 2, Translation: TranslationConfig{HeldOut: 20}, Multilingual: MultilingualConfig{Languages: 4, Pairs: 300, Nouns: 8}}
}

func TestHeldOutSentencesAreNew(t *testing.T) {
	s := testkit.Must(NewMultilingual(smallTask()))(t)
	held := map[string]bool{}
	for l := range s.Languages() {
		for i, p := range s.Pairs(l, HeldOut) {
			held[p.TargetText] = true
			testkit.Equal(t, p.TargetText, s.Pairs(0, HeldOut)[i].TargetText, "language %d says something else in held-out pair %d", l, i)
		}
	}
	testkit.Equal(t, len(held), 20, "different held-out sentences")
	firsts := map[string]bool{}
	for l := range s.Languages() {
		for _, p := range s.Pairs(l, Train) {
			if held[p.TargetText] {
				t.Errorf("held-out %q is trained on", p.TargetText)
			}
		}
		firsts[s.Pairs(l, Train)[0].TargetText] = true
	}
	testkit.Equal(t, len(firsts), 4, "languages begin with the same sentence")
}

// A larger corpus begins like a smaller one, and more languages leave the
// others as they are.
func TestMultilingualGrows(t *testing.T) {
	c := smallTask()
	small := testkit.Must(NewMultilingual(c))(t)
	c.Multilingual.Pairs = 600
	more := testkit.Must(NewMultilingual(c))(t)
	c.Multilingual.Languages = 5
	wider := testkit.Must(NewMultilingual(c))(t)
	for l := range small.Languages() {
		a, b := small.Pairs(l, Train), more.Pairs(l, Train)
		if len(b) < 2*len(a)-1 || !reflect.DeepEqual(a, b[:len(a)]) {
			t.Errorf("language %d: the larger corpus has other sentences", l)
		}
		for i, p := range wider.Pairs(l, Train) {
			if p.SourceText != b[i].SourceText || p.TargetText != b[i].TargetText {
				t.Fatalf("language %d: sentence %d changes with the number of languages", l, i)
			}
		}
	}
	// Neither sizes nor their number determine which languages they are.
	c.Seed++
	other := testkit.Must(NewMultilingual(c))(t)
	if reflect.DeepEqual(other.Pairs(0, Train)[0].TargetText, more.Pairs(0, Train)[0].TargetText) {
		t.Error("another seed begins alike")
	}
}

func TestMultilingualSharedVocabulary(t *testing.T) {
	c := smallTask()
	apart := testkit.Must(NewMultilingual(c))(t)
	c.Translation.Shared = true
	s := testkit.Must(NewMultilingual(c))(t)
	if s.Source() != s.Target() || s.SourceVocab() != s.Vocab() {
		t.Error("shared vocabularies differ")
	}
	if apart.Source() == apart.Target() || apart.Vocab() >= s.Vocab() {
		t.Error("separate vocabularies are one")
	}
	for l := range s.Languages() {
		for i, p := range s.Pairs(l, Train) {
			q := apart.Pairs(l, Train)[i]
			if p.SourceText != q.SourceText || p.TargetText != q.TargetText {
				t.Fatalf("%q became %q", q.SourceText, p.SourceText)
			}
		}
	}
}

func ExampleNewMultilingual() {
	s, err := NewMultilingual(Config{Seed: 1})
	if err != nil {
		panic(err)
	}
	baselines := s.Baselines()
	for l, language := range s.Languages() {
		fmt.Printf("%-17s %5d pairs, %4.1f%% of an epoch; BLEU of a copy %.0f, of a dictionary %.0f\n",
			language.Name, language.Train, 100*language.Share, baselines[0].Languages[l], baselines[1].Languages[l])
	}
	fmt.Println("shapes", s.Shapes(), "vocabularies", s.SourceVocab(), s.Vocab())

	// A batch of one language, to be translated and scored.
	pairs := s.Pairs(0, HeldOut)[:3]
	b := s.Collate(pairs)
	fmt.Println("source", b.Inputs[0].Shape, "lengths", b.Inputs[1].I32, "target", b.Inputs[2].Shape)
	perfect := pairs[0].Target // stands for a network's output
	var score baseline.BLEU
	score.Add(s.Target().Decode(perfect), pairs[0].TargetText)
	fmt.Println(pairs[0].SourceText, "->", s.Target().Decode(perfect), score.Score())
	// Output:
	// agglutinating SOV 20000 pairs, 52.0% of an epoch; BLEU of a copy 0, of a dictionary 5
	// case-marking VSO   5000 pairs, 19.7% of an epoch; BLEU of a copy 0, of a dictionary 0
	// prefixing OSV      2222 pairs, 11.2% of an epoch; BLEU of a copy 0, of a dictionary 7
	// pro-drop SOV       1250 pairs,  7.5% of an epoch; BLEU of a copy 0, of a dictionary 0
	// fusing OVS          800 pairs,  5.5% of an epoch; BLEU of a copy 0, of a dictionary 4
	// isolating VSO       556 pairs,  4.2% of an epoch; BLEU of a copy 0, of a dictionary 4
	// shapes [{8 8} {11 11} {15 15} {19 25}] vocabularies 1112 192
	// source [3 11] lengths [6 7 6] target [3 11]
	// kesez bezus nilos wotusun -> gov qilulal zamigal vumaj vucovig 100
}
