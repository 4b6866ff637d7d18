package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// MaxText is the size in bytes up to which a text is read: 1 GiB, all of it in
// memory, so that nobody who writes to the file can change a run.
const MaxText = 1 << 30

// Open returns the source that a specification names: "synthetic" or
// "text:FILE" for language models; for translation "synthetic-translation" or
// "parallel:SRC,TGT[,SRC2,TGT2...]", with two files for each source language,
// whose names then cannot have commas in them. An error is one line.
func Open(spec string, c Config) (Source, error) {
	kind, file, err := parse(spec)
	if err != nil {
		return nil, err
	}
	// Not returned straight from the constructors: a nil *Text is no nil Source.
	var s Source
	switch kind {
	case "text":
		s, err = OpenText(file, c)
	case "parallel":
		s, err = OpenParallel(strings.Split(file, ","), c)
	case "synthetic-translation":
		s, err = NewMultilingual(c)
	default:
		s, err = NewSynthetic(c)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// accepted is what Open takes.
const accepted = "want synthetic or text:FILE, or for translation synthetic-translation or parallel:SRC,TGT"

// reserved are the kinds of source that are to come.
var reserved = []string{"cifar10", "cifar100", "mnist", "images"}

// parse splits a specification into its kind and what follows the first colon.
func parse(spec string) (kind, argument string, err error) {
	kind, argument, colon := strings.Cut(spec, ":")
	switch {
	case (kind == "synthetic" || kind == "synthetic-translation") && !colon:
		return kind, "", nil
	case kind == "synthetic" || kind == "synthetic-translation":
		return "", "", fmt.Errorf("data source %s: %s takes no argument", printable(spec), kind)
	case kind == "text" && argument != "":
		return kind, argument, nil
	case kind == "text":
		return "", "", fmt.Errorf("data source %s: no file, want text:FILE", printable(spec))
	case kind == "parallel":
		files := strings.Split(argument, ",")
		if len(files)%2 != 0 || slices.Contains(files, "") {
			return "", "", fmt.Errorf("data source %s: want two files for each language, parallel:SRC,TGT[,SRC2,TGT2...]", printable(spec))
		}
		return kind, argument, nil
	}
	for _, r := range reserved {
		if kind == r {
			return "", "", fmt.Errorf("data source %s: %s is not in this version, %s", printable(spec), kind, accepted)
		}
	}
	return "", "", fmt.Errorf("data source %s: unknown, %s", printable(spec), accepted)
}

// OpenText reads a text; see NewText and MaxText.
func OpenText(file string, c Config) (*Text, error) {
	name := "text:" + printable(file)
	text, err := readText(file, MaxText)
	if err != nil {
		// The path is in the name already; once is enough.
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("%s: %w, want a readable file of up to %d MiB", name, err, MaxText>>20)
	}
	return NewText(name, text, c)
}

// readText reads a file, or a pipe, of up to limit bytes.
func readText(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("is a directory")
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%d bytes", info.Size())
	}
	var text bytes.Buffer
	text.Grow(int(info.Size()) + bytes.MinRead) // all at once if the size is known
	if _, err := text.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(text.Len()) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return text.Bytes(), nil
}

// printable is a name as it can stand in a message of one line: itself, or
// quoted where it has something in it that does not print.
func printable(s string) string {
	if q := strconv.Quote(s); s == "" || q[1:len(q)-1] != s {
		return q
	}
	return s
}
