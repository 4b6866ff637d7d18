package datasets

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
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

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	testkit.Must(w.Write([]byte(text)))(t)
	testkit.NoError(t, w.Close())
	return b.String()
}

// lines returns n lines of a text, the i-th with its number expressed by
// repeated words.
func lines(n int, word string) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "%s%d%s\n", word, i%7, strings.Repeat(" "+word, i%5))
	}
	return out.String()
}

func TestParallel(t *testing.T) {
	paths := textFiles(t, lines(40, "uno"), lines(40, "one"))
	s := testkit.Must(OpenParallel(paths, Config{}))(t)
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
	for _, b := range s.Baselines() {
		if len(b.BLEU) != 1 || b.BLEU[0].RefLen == 0 {
			t.Errorf("baseline %+v", b)
		}
	}
}

// A byte order mark, carriage returns, other white space, a last line without
// an end and compression change nothing.
func TestParallelWritings(t *testing.T) {
	want := testkit.Must(OpenParallel(textFiles(t, lines(40, "uno"), lines(40, "one")), Config{}))(t)
	for name, change := range map[string]func(string) string{
		"byte order mark": func(s string) string { return "\uFEFF" + s },
		"CRLF":            func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"white space":     func(s string) string { return " \t" + strings.ReplaceAll(s, " ", "\u00A0 \t") },
		"no last end":     func(s string) string { return strings.TrimSuffix(s, "\n") },
		"gzip":            func(s string) string { return zipped(t, s) },
		"two in gzip":     func(s string) string { return zipped(t, s[:50]) + zipped(t, s[50:]) },
		"empty lines":     func(s string) string { return strings.Replace(s, "\n", "\n\n \n", 1) + "\n" },
	} {
		got := testkit.Must(OpenParallel(textFiles(t, change(lines(40, "uno")), change(lines(40, "one"))), Config{}))(t)
		testkit.EqualDeep(t, got.pairs, want.pairs, "%s: other pairs", name)
		empty := 0
		if name == "empty lines" {
			empty = 3
		}
		testkit.Equal(t, got.Languages()[0].Empty, empty, "%s: empty lines", name)
	}
}

// Several languages, one of them compressed.
func TestParallelLanguages(t *testing.T) {
	texts := []string{lines(100, "uno"), lines(100, "one"), zipped(t, lines(30, "eins")), lines(30, "one")}
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
	// The same through Open, where the separator is a comma.
	opened := testkit.Must(Open("parallel:"+strings.Join(paths, ","), c))(t)
	if opened.Name() != s.Name() || opened.(Shaped).Shapes() == nil {
		t.Errorf("opened %s", opened.Name())
	}
}

// Base names, or paths where necessary.
func TestLanguageNames(t *testing.T) {
	for _, c := range []struct {
		files, want []string
		err         string
	}{
		{files: []string{"x/de", "x/en"}, want: []string{"de"}},
		{files: []string{"x/de", "en", "x/fr", "en", "y/de", "en"}, want: []string{"x/de", "fr", "y/de"}},
		{files: []string{"de", "en", "fr", "en", "de", "x"}, err: "parallel: de is given twice, want a file of its own for each language"},
	} {
		got, err := languageNames(c.files)
		if c.err == "" && (err != nil || !slices.Equal(got, c.want)) || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%q: %q, %v, want %q, %s", c.files, got, err, c.want, c.err)
		}
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
	if got, want := s.Target().Decode(p.Target), "\uFFFD\uFFFD\uFFFD\uFFFD"; got != want || p.TargetText != "żółw" {
		t.Errorf("%q reads %q, want %q", p.TargetText, got, want)
	}
}

func TestParallelDefaultHeldOut(t *testing.T) {
	for n, want := range map[int]int{2: 1, 19: 1, 20: 2, 12000: 1000} {
		text := strings.Repeat("a b\n", n)
		if got := testkit.Must(OpenParallel(textFiles(t, text, text), Config{}))(t).Languages()[0]; got.HeldOut != want || got.Train != n-want {
			t.Errorf("%d lines: %+v, want %d held out", n, got, want)
		}
	}
}

func TestParallelErrors(t *testing.T) {
	const ok = "one two\nthree\nfour\nfive\n"
	long := strings.Repeat("x ", MaxLine/2)
	cut := zipped(t, lines(5000, "uno"))
	for _, c := range []struct {
		source, target string
		want           string // A and B stand for the files
	}{
		{"", ok, "parallel: A: empty, want a text, plain or gzip, of up to 1024 MiB"},
		{ok, "", "parallel: B: empty, want a text, plain or gzip, of up to 1024 MiB"},
		{ok, zipped(t, ""), "parallel: B: empty, want a text, plain or gzip, of up to 1024 MiB"},
		{ok, ok + "six\n", "parallel: B:5: no matching line: 5 lines, but 4 in A, want the same number"},
		{ok + "six\nseven", ok, "parallel: A:5: no matching line: 6 lines, but 4 in B, want the same number"},
		{"one\n\nthree\n", "one\ntwo\nthree\n", "parallel: A:2: empty, but not in B: want a line in both or in neither"},
		{"one\ntwo\nthree\n", "one\ntwo\n \t\n", "parallel: B:3: empty, but not in A: want a line in both or in neither"},
		{"one\nt\x00o\n", "one\ntwo\n", "parallel: A:2:2: a byte 0, want UTF-8 text"},
		{"one\ntwo\n", "one\ntw\xffo\n", "parallel: B:2:3: not UTF-8, want UTF-8 text"},
		{"one\ntwo\n", zipped(t, "o\xed\xa0\x80ne\ntwo\n"), "parallel: B:1:2: not UTF-8, want UTF-8 text"},
		{"\xff\xfeo\x00n\x00e\x00", ok, "parallel: A:1:1: not UTF-8, want UTF-8 text"},
		{"one\n" + long + "\n", "one\ntwo\n", ""}, // exactly the limit
		{"one\n" + long + "x\n", ok, "parallel: A:2: line too long, want at most 65536 bytes"},
		{"one\n" + long + long, ok, "parallel: A:2: line too long, want at most 65536 bytes"},
		{"\x1f\x8bnonsense, not gzip", ok, "parallel: A: gzip: invalid header, want a text, plain or gzip, of up to 1024 MiB"},
		{"\x1f\x8b", ok, "parallel: A: gzip: ends in the middle, want a text, plain or gzip, of up to 1024 MiB"},
		{ok, cut[:20], "parallel: B:1: gzip: ends in the middle"},
		{ok, cut[:len(cut)-8] + "\x00\x00\x00\x00\x00\x00\x00\x00", "parallel: B:5001: gzip: invalid checksum"},
		{"one\n", "one\n", "parallel: A: 1 pairs of lines, want more than the 1 that are held out"},
		{"\n\n", "\n \n", "parallel: A: 0 pairs of lines, want more than the 1 that are held out"},
	} {
		paths := textFiles(t, c.source, c.target)
		want := strings.NewReplacer("A", paths[0], "B", paths[1], "UTF", "UTF", "MiB", "MiB").Replace(c.want)
		s, err := OpenParallel(paths, Config{SeqLen: 4096, Translation: TranslationConfig{HeldOut: 1}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != want) {
			t.Errorf("error %q, want %q", fmt.Sprint(err), want)
		}
		if err != nil && s != nil {
			t.Error("a source beside an error")
		}
	}
}

func TestParallelFileErrors(t *testing.T) {
	paths := textFiles(t, "one\ntwo\nthree\n", "one\ntwo\nthree\n")
	for _, c := range []struct {
		files []string
		c     Config
		want  string
	}{
		{nil, Config{}, "parallel: 0 files, want two for each language"},
		{paths[:1], Config{}, "parallel: 1 files, want two for each language"},
		{[]string{paths[0], "/nowhere/b\nc"}, Config{}, `parallel: "/nowhere/b\nc": no such file or directory`},
		{[]string{paths[0], filepath.Dir(paths[0])}, Config{}, "parallel: " + filepath.Dir(paths[0]) + ": is a directory, want a text, plain or gzip, of up to 1024 MiB"},
		{append(slices.Clone(paths), paths...), Config{}, "parallel: " + paths[0] + " is given twice, want a file of its own for each language"},
		{paths, Config{SeqLen: 1}, "sequence length 1, want 2 to 4096 for translation"},
		{paths, Config{Translation: TranslationConfig{Vocab: 1 << 17}}, "translation: vocabulary 131072, want 6 to 65536"},
		{paths, Config{Translation: TranslationConfig{HeldOut: 3}}, "parallel: " + paths[0] + ": 3 pairs of lines, want more than the 3 that are held out"},
		{paths, Config{SeqLen: 2, Translation: TranslationConfig{Vocab: 6}}, "parallel:" + strings.Join(paths, ",") + ": a: all 2 training pairs are longer than 2 tokens, want a longer sequence"},
	} {
		if _, err := OpenParallel(c.files, c.c); err == nil || err.Error() != c.want {
			t.Errorf("%q: error %q, want %q", c.files, fmt.Sprint(err), c.want)
		}
	}
	if _, err := OpenParallel([]string{"/nowhere/a", "b"}, Config{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file's error %v is not fs.ErrNotExist", err)
	}
}

func TestParseLinesLimit(t *testing.T) {
	for limit, want := range map[int64]string{7: "", 6: "3: text of more than 6 bytes", 2: "2: text of more than 2 bytes"} {
		for _, text := range []string{"a\nbb\nc\n", zipped(t, "a\nbb\nc\n")} {
			_, err := parseLines(strings.NewReader(text), textLimits{limit, 100, 100})
			if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("limit %d: error %v, want %q", limit, err, want)
			}
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, text := range []string{
		"", "a", "a\nb", "a\n\nb\r\n", "\uFEFFa b\n", "\x1f\x8b", "a\x00", "\xff", "\n\n\n", "0123456789", " \u00A0\u2003x\u2028y ",
		zipped(f, "a\nb\n"), zipped(f, "a\nb\n")[:15], zipped(f, "\uFEFFa") + "x",
		strings.Repeat("\n", 199) + "a", // as long as a text may be, without its last line end
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit, longest = 200, 9
		got, err := parseLines(bytes.NewReader(text), textLimits{limit, longest, limit})
		if err != nil {
			if got != nil || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q: %q beside error %q", text, got, err)
			}
			return
		}
		again := strings.Join(got, "\n") + "\n"
		for _, line := range got {
			if len(line) > longest || strings.Join(strings.Fields(line), " ") != line || strings.ContainsAny(line, "\x00\n\r") {
				t.Fatalf("%q has line %q", text, line)
			}
		}
		if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
			return
		}
		// A plain text has as many lines as line ends, and one more if it does
		// not end with one.
		want := bytes.Count(text, []byte("\n"))
		if len(text) > 0 && text[len(text)-1] != '\n' {
			want++
		}
		if len(got) != want || len(text) > limit {
			t.Fatalf("%q has lines %q, want %d", text, got, want)
		}
		// A mark that was second may now be first; the last line may now have
		// an end.
		if len(got) > 0 && !strings.HasPrefix(again, byteOrderMark) {
			testkit.EqualAll(t, testkit.Must(parseLines(strings.NewReader(again), textLimits{limit + 1, longest, limit}))(t), got, "%q, then", got)
		}
	})
}

func ExampleOpenParallel() {
	dir, err := os.MkdirTemp("", "parallel")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	de, en := filepath.Join(dir, "text.de"), filepath.Join(dir, "text.en")
	german := strings.Repeat("das haus ist alt\ndie katze schläft\n", 20)
	english := strings.Repeat("the house is old\nthe cat sleeps\n", 20)
	if err := errors.Join(os.WriteFile(de, []byte(german), 0o600), os.WriteFile(en, []byte(english), 0o600)); err != nil {
		panic(err)
	}

	s, err := OpenParallel([]string{de, en}, Config{SeqLen: 32, Translation: TranslationConfig{Vocab: 40}})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%+v\n", s.Languages()[0])
	p := s.Pairs(0, HeldOut)[1]
	for _, id := range p.Source {
		fmt.Printf("[%s]", s.Source().Piece(id))
	}
	fmt.Println()
	fmt.Println(s.Target().Decode(p.Target))

	err = os.WriteFile(en, []byte(english+"one more\n"), 0o600)
	if err == nil {
		_, err = OpenParallel([]string{de, en}, Config{})
	}
	fmt.Println(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
	// Output:
	// {Name:text.de Train:36 HeldOut:4 Dropped:0 Cut:0 Empty:0 Share:1}
	// [die</w>][k][atze</w>][s][chläft</w>][</s>]
	// the cat sleeps
	// parallel: text.en:41: no matching line: 41 lines, but 40 in text.de, want the same number
}

// Gzip that expands too much, and too many lines, are rejected before memory is
// allocated for them.
func TestParallelIsBounded(t *testing.T) {
	bomb := zipped(t, strings.Repeat("word word\n", 5<<20))
	paths := textFiles(t, bomb, "a\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := OpenParallel(paths, Config{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.HasPrefix(err.Error(), "parallel: "+paths[0]+":") || !strings.Contains(err.Error(), "gzip: ") {
		t.Errorf("%d bytes of gzip: error %v", len(bomb), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<29 {
		t.Errorf("it took %d bytes", took)
	}
	if _, err := parseLines(strings.NewReader("a\nb\n\nc"), textLimits{100, 10, 3}); err == nil || err.Error() != "4: text of more than 3 lines" {
		t.Errorf("too many lines: %v", err)
	}
	if lines, err := parseLines(strings.NewReader("a\nb\n\n"), textLimits{100, 10, 3}); len(lines) != 3 || err != nil {
		t.Errorf("%q, %v", lines, err)
	}
	// Empty members of gzip, one after another, end with their file.
	empty := textFiles(t, strings.Repeat(zipped(t, ""), 1000), "a\n")
	testkit.Refused(OpenParallel(empty, Config{}))(t, "empty")
}

// For any two files, the result is an error of one line, or all their pairs: in
// training, held out, left out as empty or too long.
func FuzzParallel(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("x\ny\nz\n"), uint8(1))
	f.Add([]byte("a b\n\nc\n"), []byte("x\n\nz z"), uint8(0))
	f.Add([]byte("a\nb\n"), []byte("x\n"), uint8(1))
	f.Add([]byte(zipped(f, "a\nb\nc\n")), []byte("\uFEFFx\ny\nz\n"), uint8(2))
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
		lines := testkit.Must(readLines(paths[0]))(t)
		l := s.Languages()[0]
		if sum := l.Train + l.HeldOut + l.Dropped + l.Empty; sum != len(lines) || heldOut > 0 && l.HeldOut != int(heldOut) {
			t.Errorf("%+v of %d lines", l, len(lines))
		}
	})
}
