package datasets

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// textFiles writes texts and returns their paths, in order.
func textFiles(t testing.TB, texts ...string) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for i, text := range texts {
		path := filepath.Join(dir, string(rune('a'+i)))
		testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		paths = append(paths, path)
	}
	return paths
}

// fourHeldOut is of texts of 40 lines.
var fourHeldOut = Config{Translation: TranslationConfig{HeldOut: 4}}

func TestParallel(t *testing.T) {
	paths := textFiles(t, lines(40, "uno"), lines(40, "one"))
	s := testkit.Must(OpenParallel(paths, fourHeldOut))(t)
	testkit.EqualDeep(t, s.Languages(), []Language{{Name: "a", Train: 36, HeldOut: 4, Share: 1}}, "languages")
	for i, p := range append(slices.Clone(s.Pairs(0, Train)), s.Pairs(0, HeldOut)...) {
		want := strings.Split(lines(40, "uno"), "\n")[i]
		if p.SourceText != want || s.Source().Decode(p.Source) != want || p.Source[len(p.Source)-1] != End {
			t.Fatalf("line %d is %q, %v, want %q", i, p.SourceText, p.Source, want)
		}
		if s.Target().Decode(p.Target) != p.TargetText || p.TargetText != strings.Split(lines(40, "one"), "\n")[i] {
			t.Fatalf("line %d is translated %q, %v", i, p.TargetText, p.Target)
		}
	}
	pass(t, s, Train, 0, s.Batches(Train, 8), 8)
	pass(t, s, HeldOut, 0, s.Batches(HeldOut, 8), 8)
}

// A byte order mark, carriage returns, other white space, a last line without
// an end and lines that are empty on both sides change nothing.
func TestParallelWritings(t *testing.T) {
	want := testkit.Must(OpenParallel(textFiles(t, lines(40, "uno"), lines(40, "one")), fourHeldOut))(t)
	for name, change := range map[string]func(string) string{
		"byte order mark": func(s string) string { return "\uFEFF" + s },
		"CRLF":            func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"white space":     func(s string) string { return " \t" + strings.ReplaceAll(s, " ", "\u00A0 \t") },
		"no last end":     func(s string) string { return strings.TrimSuffix(s, "\n") },
		"empty lines":     func(s string) string { return strings.Replace(s, "\n", "\n\n \n", 1) + "\n" },
	} {
		got := testkit.Must(OpenParallel(textFiles(t, change(lines(40, "uno")), change(lines(40, "one"))), fourHeldOut))(t)
		testkit.EqualDeep(t, got.pairs, want.pairs, "%s: other pairs", name)
	}
}

// Several languages, through Open as well, where the separator is a comma.
func TestParallelLanguages(t *testing.T) {
	texts := []string{lines(100, "uno"), lines(100, "one"), lines(30, "eins"), lines(30, "one")}
	paths := textFiles(t, texts...)
	c := Config{Translation: TranslationConfig{HeldOut: 7, Temperature: math.Inf(1)}}
	s := testkit.Must(OpenParallel(paths, c))(t)
	want := []Language{{Name: "a", Train: 93, HeldOut: 7, Share: 58. / 116}, {Name: "c", Train: 23, HeldOut: 7, Share: 58. / 116}}
	testkit.EqualDeep(t, s.Languages(), want, "languages")
	for _, text := range []string{"uno1 eins", "uno4"} {
		testkit.Equal(t, s.Source().Decode(s.Source().Encode(text)), text, "through the source vocabulary")
	}
	if got := s.Target().Decode(s.Target().Encode("uno")); got == "uno" {
		t.Error("the target's vocabulary has a source's letters")
	}
	c.Translation.Shared = true
	if s := testkit.Must(OpenParallel(paths, c))(t); s.Source() != s.Target() || s.Vocab() != s.SourceVocab() || s.Target().Decode(s.Target().Encode("uno")) != "uno" {
		t.Error("vocabularies are not shared")
	}
	opened := testkit.Must(Open("parallel:"+strings.Join(paths, ","), c))(t)
	if opened.Name() != s.Name() || opened.(*Translation).Shapes() == nil {
		t.Errorf("opened %s", opened.Name())
	}
}

// The held-out part does not influence the vocabulary, and may have letters
// that are unknown to it.
func TestParallelVocabularyIsOfTheTrainingPart(t *testing.T) {
	text := lines(30, "uno") + strings.Repeat("żółw\n", 3)
	s := testkit.Must(OpenParallel(textFiles(t, text, text), Config{Translation: TranslationConfig{HeldOut: 3, Vocab: 30}}))(t)
	if s.Vocab() > 30 || s.SourceVocab() > 30 {
		t.Errorf("vocabularies of %d and %d, asked for 30", s.SourceVocab(), s.Vocab())
	}
	p := s.Pairs(0, HeldOut)[2]
	testkit.Equal(t, p.TargetText, "żółw")
	testkit.Equal(t, s.Target().Decode(p.Target), "\uFFFD\uFFFD\uFFFD\uFFFD", "%q reads", p.TargetText)
}

func TestParallelErrors(t *testing.T) {
	const ok = "one two\nthree\nfour\nfive\n"
	long := strings.Repeat("x ", maxLine/2-1) + "x\n"
	for _, c := range []struct {
		source, target string
		want           string // A and B stand for the files
	}{
		{"", ok, "A has 0 lines and B 4, want as many"},
		{ok, ok + "six\n", "A has 4 lines and B 5, want as many"},
		{"one\n\nthree\n", "one\ntwo\nthree\n", "line 2 is empty in A or in B, want that in both or in neither"},
		{"one\ntwo\nthree\n", "one\ntwo\n \t\n", "line 3 is empty in A or in B, want that in both or in neither"},
		{"one\nt\x00o\n", "one\ntwo\n", "A:2: no text, want UTF-8"},
		{"one\ntwo\n", "one\ntw\xffo\n", "B:2: no text, want UTF-8"},
		{"one\n" + long, "one\ntwo\n", ""}, // exactly the limit
		{"one\nx" + long, ok, "A:2: want lines of at most 65536 bytes, and at most 5000000"},
		{"one\n", "one\n", "A: 1 pairs of lines, want more than the 1 that are held out"},
		{"\n\n", "\n \n", "A: 0 pairs of lines, want more than the 1 that are held out"},
	} {
		paths := textFiles(t, c.source, c.target)
		want := "parallel: " + strings.NewReplacer("A", paths[0], "B", paths[1]).Replace(c.want)
		s, err := OpenParallel(paths, Config{SeqLen: 4096, Translation: TranslationConfig{HeldOut: 1}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != want || s != nil) {
			t.Errorf("%v, %v, want %s", s, err, want)
		}
	}
	paths := textFiles(t, "one\ntwo\nthree\n", "one\ntwo\nthree\n")
	for _, c := range []struct {
		files []string
		c     Config
		want  string
	}{
		{nil, Config{}, "parallel: 0 files, want two for each language"},
		{paths[:1], Config{}, "parallel: 1 files, want two for each language"},
		{[]string{paths[0], "/nowhere/b\nc"}, Config{}, `parallel: "/nowhere/b\nc": no such file or directory`},
		{append(slices.Clone(paths), paths...), Config{Translation: TranslationConfig{HeldOut: 1}}, "parallel: two languages of files named a, want each once"},
		{paths, Config{SeqLen: 1}, "sequence length 1, want 2 to 4096 for translation"},
		{paths, Config{Translation: TranslationConfig{Vocab: 1 << 17}}, "translation: vocabulary 131072, want 6 to 65536"},
		{paths, Config{Translation: TranslationConfig{HeldOut: 3}}, "parallel: " + paths[0] + ": 3 pairs of lines, want more than the 3 that are held out"},
		{paths, Config{SeqLen: 2, Translation: TranslationConfig{Vocab: 6, HeldOut: 1}}, "parallel:" + strings.Join(paths, ",") + ": a: all 2 training pairs are longer than 2 tokens, want a longer sequence"},
	} {
		_, err := OpenParallel(c.files, c.c)
		testkit.Equal(t, fmt.Sprint(err), c.want, "%q", c.files)
	}
}

// For any two files, the result is an error of one line, or all their pairs: in
// training, held out, left out as empty or too long.
func FuzzParallel(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("x\ny\nz\n"), uint8(1))
	f.Add([]byte("a b\n\nc\n"), []byte("x\n\nz z"), uint8(0))
	f.Add([]byte("a\nb\n"), []byte("x\n"), uint8(1))
	f.Add([]byte("a\nb\nc\n"), []byte("\uFEFFx\ny\nz\n"), uint8(2))
	f.Add([]byte{}, []byte("\n"), uint8(0))
	dir := f.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	f.Fuzz(func(t *testing.T, source, target []byte, heldOut uint8) {
		for i, text := range [][]byte{source, target} {
			testkit.NoError(t, os.WriteFile(paths[i], text, 0o600))
		}
		s, err := OpenParallel(paths, Config{SeqLen: 16, Translation: TranslationConfig{Vocab: 300, HeldOut: int(heldOut)}})
		if err != nil {
			if m := err.Error(); s != nil || strings.ContainsAny(m, "\n\r") || !strings.HasPrefix(m, "parallel:") && !strings.HasPrefix(m, "translation:") {
				t.Errorf("error %q", m)
			}
			return
		}
		lines := slices.DeleteFunc(testkit.Must(readLines(paths[0]))(t), func(line string) bool { return line == "" })
		l := s.Languages()[0]
		if sum := l.Train + l.HeldOut + l.Dropped; sum != len(lines) || heldOut > 0 && l.HeldOut != int(heldOut) {
			t.Errorf("%+v of %d lines", l, len(lines))
		}
	})
}
