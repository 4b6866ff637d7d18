package datasets

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"gpipebench/internal/files"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// MaxLine is the maximum length of a line of a parallel text in bytes.
const MaxLine = 1 << 16

// MaxLines is the maximum number of lines of a parallel text: a line takes
// memory even if it is nearly empty.
const MaxLines = 5_000_000

// OpenParallel reads aligned texts: files has, for each language, the file of
// its sentences and that of their translations, line by line. Translation
// describes the source, and TranslationConfig its options.
//
// Files are UTF-8, plain or compressed by gzip, which is recognised by their
// first bytes. White space, including carriage returns, separates words, and a
// byte order mark at the beginning is skipped; there is no other normalisation.
// A line that is empty in both files is left out. It is an error if a line is
// empty in only one of them, if the numbers of lines differ, if a file contains
// a byte 0 or is not UTF-8, if a line has more than MaxLine bytes, a file more
// than MaxText bytes or MaxLines lines, or if gzip expands far more than text
// does. A language has the name of its first file, without the directory if
// that is unique.
//
// The last pairs of each language are held out. Byte-pair vocabularies are
// learnt from the training part: one of all languages' sentences and one of all
// their translations, or one of both (TranslationConfig.Shared).
func OpenParallel(files []string, c Config) (*Translation, error) {
	if err := c.validateTranslation(); err != nil {
		return nil, err
	}
	if len(files) == 0 || len(files)%2 != 0 {
		return nil, fmt.Errorf("parallel: %d files, want two for each language", len(files))
	}
	c = c.withDefaults()
	names, err := languageNames(files)
	if err != nil {
		return nil, err
	}
	var corpora []corpus
	for i, name := range names {
		from, err := readCorpus(name, files[2*i], files[2*i+1], c.Translation.HeldOut)
		if err != nil {
			return nil, err
		}
		corpora = append(corpora, from)
	}
	source, target := learnVocabularies(corpora, c.Translation)
	for i := range corpora {
		from := &corpora[i]
		from.sourceIDs, from.targetIDs = source.encodeAll(from.source), target.encodeAll(from.target)
	}
	var printed []string
	for _, f := range files {
		printed = append(printed, printable(f))
	}
	return newTranslation("parallel:"+strings.Join(printed, ","), source, target, corpora, c)
}

// languageNames returns the first files' base names, or their paths if two are
// the same.
func languageNames(files []string) ([]string, error) {
	var names []string
	paths, bases := map[string]bool{}, map[string]int{}
	for i := 0; i < len(files); i += 2 {
		if paths[files[i]] {
			return nil, fmt.Errorf("parallel: %s is given twice, want a file of its own for each language", printable(files[i]))
		}
		paths[files[i]] = true
		bases[filepath.Base(files[i])]++
	}
	for i := 0; i < len(files); i += 2 {
		name := filepath.Base(files[i])
		if bases[name] > 1 {
			name = files[i]
		}
		names = append(names, name)
	}
	return names, nil
}

// readCorpus reads and aligns two files. heldOut 0 means the default.
func readCorpus(name, source, target string, heldOut int) (corpus, error) {
	from := corpus{name: name}
	a, err := readLines(source)
	if err != nil {
		return from, err
	}
	b, err := readLines(target)
	if err != nil {
		return from, err
	}
	if len(a) != len(b) {
		longer, shorter := source, target
		if len(b) > len(a) {
			longer, shorter = target, source
		}
		common := min(len(a), len(b))
		return from, fmt.Errorf("parallel: %s:%d: no matching line: %d lines, but %d in %s, want the same number",
			printable(longer), common+1, max(len(a), len(b)), common, printable(shorter))
	}
	for i := range a {
		switch {
		case a[i] == "" && b[i] == "":
			from.empty++
			continue
		case a[i] == "":
			return from, emptyBeside(source, target, i)
		case b[i] == "":
			return from, emptyBeside(target, source, i)
		}
		from.source, from.target = append(from.source, a[i]), append(from.target, b[i])
	}
	n := len(from.source)
	from.heldOut = heldOut
	if heldOut == 0 {
		from.heldOut = min(max(n/10, 1), 1000)
	}
	if from.heldOut >= n {
		return from, fmt.Errorf("parallel: %s: %d pairs of lines, want more than the %d that are held out", printable(source), n, from.heldOut)
	}
	return from, nil
}

func emptyBeside(empty, other string, line int) error {
	return fmt.Errorf("parallel: %s:%d: empty, but not in %s: want a line in both or in neither", printable(empty), line+1, printable(other))
}

// readLines reads a file's lines, with single spaces between words.
func readLines(file string) ([]string, error) {
	lines, err := func() ([]string, error) {
		f, err := files.Open(file, textKind)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return parseLines(f, textLimits{MaxText, MaxLine, MaxLines})
	}()
	if err == nil && len(lines) == 0 {
		err = errors.New("empty")
	}
	if err == nil {
		return lines, nil
	}
	var of *files.Error
	var at *lineError
	switch {
	case errors.As(err, &at):
		return nil, fmt.Errorf("parallel: %s:%w", printable(file), err)
	case errors.As(err, &of):
		return nil, fmt.Errorf("parallel: %w", of)
	}
	return nil, fmt.Errorf("parallel: %s: %w, want %v", printable(file), err, textKind)
}

// textKind is the kind of file of a parallel text.
var textKind = files.Kind{What: "a text, plain or gzip,", Bytes: MaxText}

// lineError is an error in a line.
type lineError struct {
	line, column int // from 1; column 0: the whole line
	err          error
}

func (e *lineError) Unwrap() error { return e.err }

func (e *lineError) Error() string {
	if e.column == 0 {
		return fmt.Sprintf("%d: %v", e.line, e.err)
	}
	return fmt.Sprintf("%d:%d: %v", e.line, e.column, e.err)
}

var (
	errLongLine = errors.New("line too long")
	errNUL      = errors.New("a byte 0, want UTF-8 text")
	errNotUTF8  = errors.New("not UTF-8, want UTF-8 text")
	errCutShort = errors.New("gzip: ends in the middle")
)

// textLimits are the limits of a text.
type textLimits struct {
	text  int64 // bytes, after decompression
	line  int   // bytes of a line
	lines int
}

// parseLines reads a text's lines.
func parseLines(r io.Reader, most textLimits) ([]string, error) {
	text, err := plain(r)
	if err != nil {
		return nil, err
	}
	// A line includes its end and, if it is the first, a byte order mark.
	in := bufio.NewReaderSize(text, max(most.line+len("\n")+len(byteOrderMark), 16))
	var lines []string
	var size int64
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return lines, nil
		}
		if size += int64(len(line)); size > most.text {
			return nil, &lineError{len(lines) + 1, 0, fmt.Errorf("text of more than %d bytes", most.text)}
		}
		if len(lines) == most.lines {
			return nil, &lineError{len(lines) + 1, 0, fmt.Errorf("text of more than %d lines", most.lines)}
		}
		line, ended := bytes.CutSuffix(line, []byte("\n"))
		if len(lines) == 0 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if !ended && err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			return nil, &lineError{len(lines) + 1, 0, cutShort(err)}
		}
		if err == bufio.ErrBufferFull || len(line) > most.line {
			return nil, &lineError{len(lines) + 1, 0, fmt.Errorf("%w, want at most %d bytes", errLongLine, most.line)}
		}
		if e := checkLine(line); e != nil {
			e.line = len(lines) + 1
			return nil, e
		}
		lines = append(lines, strings.Join(strings.Fields(string(line)), " "))
	}
}

const byteOrderMark = "\uFEFF"

// plain decompresses data that begins as gzip does.
func plain(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	magic, err := in.Peek(2)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, nil
	}
	z, err := files.Gunzip(in)
	if err != nil {
		return nil, cutShort(err)
	}
	return z, nil
}

// cutShort replaces the error of a truncated file by a plainer one.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errCutShort
	}
	return files.Reason(err)
}

// checkLine finds the first invalid byte of a line. The column counts bytes.
func checkLine(line []byte) *lineError {
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		switch {
		case r == 0:
			return &lineError{column: i + 1, err: errNUL}
		case r == utf8.RuneError && size == 1:
			return &lineError{column: i + 1, err: errNotUTF8}
		}
		i += size
	}
	return nil
}

// learnVocabularies learns from the training parts of all languages together.
func learnVocabularies(corpora []corpus, c TranslationConfig) (source, target *BPE) {
	sources, targets := map[string]int{}, map[string]int{}
	if c.Shared {
		targets = sources
	}
	for _, from := range corpora {
		train := len(from.source) - from.heldOut
		countWords(sources, from.source[:train])
		countWords(targets, from.target[:train])
	}
	if c.Shared {
		source = LearnBPE(sources, c.Vocab)
		return source, source
	}
	return LearnBPE(sources, c.SourceVocab), LearnBPE(targets, c.Vocab)
}

func countWords(counts map[string]int, texts []string) {
	for _, t := range texts {
		for _, w := range strings.Fields(t) {
			counts[w]++
		}
	}
}
