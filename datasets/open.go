package datasets

import (
	"fmt"
	"gpipebench/internal/files"
	"slices"
	"strings"
)

// MaxText is the maximum size of a text in bytes: 1 GiB. All of it is read into
// memory, so that a later change of the file does not affect a run.
const MaxText = 1 << 30

// Open returns the source that a specification names. For language models it is
// "synthetic" or "text:FILE"; for translation "synthetic-translation" or
// "parallel:SRC,TGT[,SRC2,TGT2...]", with two files for each source language, or
// "gettext:DIR[,LANG...]", where DIR is SystemCatalogs if it is empty; these
// names cannot contain commas. For images (the source is then an Images) it is
// "synthetic-images", "synthetic-digits", "cifar10:DIR", "cifar100:DIR", "mnist:DIR" or
// "images:DIR". An error is one line.
func Open(spec string, c Config) (Source, error) {
	kind, argument, err := parse(spec)
	if err != nil {
		return nil, err
	}
	return kinds[kind].open(argument, c)
}

// NamesFiles reports whether a specification is valid and names files, which
// may then be the cause of an error.
func NamesFiles(spec string) bool {
	_, argument, err := parse(spec)
	return err == nil && argument != ""
}

// kinds lists the possible beginnings of a specification.
var kinds = map[string]struct {
	argument string // what must follow a colon; "" for nothing
	open     func(argument string, c Config) (Source, error)
}{
	"synthetic":             {"", source(func(_ string, c Config) (*Synthetic, error) { return NewSynthetic(c) })},
	"text":                  {"FILE", source(OpenText)},
	"synthetic-translation": {"", source(func(_ string, c Config) (*Translation, error) { return NewMultilingual(c) })},
	"parallel":              {"SRC,TGT", source(func(files string, c Config) (*Translation, error) { return OpenParallel(strings.Split(files, ","), c) })},
	"gettext":               {"DIR", source(OpenGettext)},
	"synthetic-images":      {"", source(func(_ string, c Config) (*ImageSet, error) { return NewSyntheticImages(c) })},
	"synthetic-digits":      {"", source(func(_ string, c Config) (*ImageSet, error) { return NewSyntheticDigits(c) })},
	"cifar10":               {"DIR", source(OpenCIFAR10)},
	"cifar100":              {"DIR", source(OpenCIFAR100)},
	"mnist":                 {"DIR", source(OpenMNIST)},
	"images":                {"DIR", source(OpenImages)},
}

// source makes a Source of a constructor's result: a nil *Text is not a nil
// Source.
func source[S Source](open func(string, Config) (S, error)) func(string, Config) (Source, error) {
	return func(argument string, c Config) (Source, error) {
		s, err := open(argument, c)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// accepted describes what Open accepts.
const accepted = "want synthetic or text:FILE, for translation synthetic-translation, parallel:SRC,TGT or gettext:DIR, " +
	"or for images synthetic-images, synthetic-digits, cifar10:DIR, cifar100:DIR, mnist:DIR or images:DIR"

// parse splits a specification into its kind and the text after the first
// colon.
func parse(spec string) (kind, argument string, err error) {
	kind, argument, colon := strings.Cut(spec, ":")
	k, known := kinds[kind]
	if kind == "gettext" && (argument == "" || argument[0] == ',') {
		argument = SystemCatalogs + argument
	}
	switch {
	case !known:
		return "", "", fmt.Errorf("data source %s: unknown, %s", printable(spec), accepted)
	case k.argument == "" && colon:
		return "", "", fmt.Errorf("data source %s: %s takes no argument", printable(spec), kind)
	case kind == "parallel":
		if files := strings.Split(argument, ","); len(files)%2 != 0 || slices.Contains(files, "") {
			return "", "", fmt.Errorf("data source %s: want two files for each language, parallel:SRC,TGT[,SRC2,TGT2...]", printable(spec))
		}
	case kind == "gettext":
		if _, _, err := splitCatalogs(argument); err != nil {
			return "", "", fmt.Errorf("data source %s: %w", printable(spec), err)
		}
	case k.argument != "" && argument == "":
		what := map[string]string{"FILE": "file", "DIR": "directory"}[k.argument]
		return "", "", fmt.Errorf("data source %s: no %s, want %s:%s", printable(spec), what, kind, k.argument)
	}
	return kind, argument, nil
}

// OpenText reads a text; see NewText and MaxText.
func OpenText(file string, c Config) (*Text, error) {
	name := "text:" + printable(file)
	text, err := files.Read(file, files.Kind{What: "a readable file", Bytes: MaxText})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, files.Reason(err)) // the name includes the path already
	}
	return NewText(name, text, c)
}

// printable returns a name in a form that fits into a message of one line.
func printable(s string) string { return files.Printable(s) }
