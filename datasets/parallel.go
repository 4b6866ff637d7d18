package datasets

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gpipebench/internal/files"
)

// The most bytes of a line of a parallel text, and the most lines: one takes memory even if it is
// nearly empty.
const (
	maxLine  = 1 << 16
	maxLines = 5_000_000
)

// OpenParallel reads aligned texts: paths has, for each language, the file of
// its sentences and that of their translations, line by line. Translation
// describes the source, and TranslationConfig its options.
//
// Files are UTF-8. White space separates words; there is no other
// normalisation. A line that is empty in both files is left out; one that is
// empty in only one of them is an error. A language has the name of its first
// file, without the directory.
//
// The last pairs of each language are held out. Byte-pair vocabularies are
// learnt from the training part, see learnVocabularies.
func OpenParallel(paths []string, c Config) (*Translation, error) {
	if err := c.validateTranslation(); err != nil {
		return nil, err
	}
	if len(paths) == 0 || len(paths)%2 != 0 {
		return nil, fmt.Errorf("parallel: %d files, want two for each language", len(paths))
	}
	c = c.withDefaults()
	var corpora []corpus
	var printed []string
	for both := range slices.Chunk(paths, 2) {
		from, err := readCorpus(both[0], both[1], c.Translation.HeldOut)
		if err != nil {
			return nil, fmt.Errorf("parallel: %w", err)
		}
		if slices.ContainsFunc(corpora, func(other corpus) bool { return other.name == from.name }) {
			return nil, fmt.Errorf("parallel: two languages of files named %s, want each once", printable(from.name))
		}
		corpora = append(corpora, from)
		printed = append(printed, printable(both[0]), printable(both[1]))
	}
	source, target := learnVocabularies(corpora, c.Translation)
	return newTranslation("parallel:"+strings.Join(printed, ","), source, target, corpora, c)
}

// readCorpus reads and aligns two files.
func readCorpus(source, target string, heldOut int) (corpus, error) {
	from := corpus{name: filepath.Base(source)}
	a, err := readLines(source)
	if err != nil {
		return from, err
	}
	b, err := readLines(target)
	if err != nil {
		return from, err
	}
	if len(a) != len(b) {
		return from, fmt.Errorf("%s has %d lines and %s %d, want as many", printable(source), len(a), printable(target), len(b))
	}
	for i := range a {
		if (a[i] == "") != (b[i] == "") {
			return from, fmt.Errorf("line %d is empty in %s or in %s, want that in both or in neither", i+1, printable(source), printable(target))
		}
		if a[i] != "" {
			from.source, from.target = append(from.source, a[i]), append(from.target, b[i])
		}
	}
	n := len(from.source)
	if from.heldOut = heldOut; heldOut >= n {
		return from, fmt.Errorf("%s: %d pairs of lines, want more than the %d that are held out", printable(source), n, from.heldOut)
	}
	return from, nil
}

// readLines reads a file's lines, with single spaces between words.
func readLines(file string) (lines []string, err error) {
	text, err := files.Read(file, files.Kind{What: "a text", Bytes: MaxText})
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\uFEFF"))) {
		switch {
		case !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0:
			return nil, fmt.Errorf("%s:%d: no text, want UTF-8", printable(file), len(lines)+1)
		case len(line) > maxLine || len(lines) == maxLines:
			return nil, fmt.Errorf("%s:%d: want lines of at most %d bytes, and at most %d", printable(file), len(lines)+1, maxLine, maxLines)
		}
		lines = append(lines, strings.Join(strings.Fields(string(line)), " "))
	}
	return lines, nil
}
