// Command rewrite gives the records of results other keys: nothing is measured again, and nothing
// but the key and the sum of a line changes. keys.txt lists the specs that say the same in other
// words, a line for each experiment and profile: old digest, new digest.
//
//	go run ./lab/records/rewrite results/reference results/reference-full
//
// Add lines to keys.txt only where a spec's text has changed and what it decides has not, run it
// once, and make reference.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpipebench/internal/files"
	"gpipebench/internal/machine"
	"gpipebench/lab/records"
)

//go:embed keys.txt
var keys string

// step is a digest and what it becomes, in the records of an experiment's profile.
type step struct{ experiment, profile, from, to string }

// steps reads what keys.txt has.
func steps(text string) (all []step, err error) {
	for line := range strings.Lines(text) {
		var s step
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscan(line, &s.experiment, &s.profile, &s.from, &s.to); err != nil {
			return nil, fmt.Errorf("%q: want experiment, profile, old digest, new digest", line)
		}
		all = append(all, s)
	}
	return all, nil
}

// rewritten returns the text of a records file with other keys. Lines that are not records, or of
// other keys, stay.
func rewritten(text []byte, all []step) ([]byte, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		line, end := bytes.CutSuffix(line, []byte("\n"))
		to, err := other(line, all)
		if err != nil {
			return nil, err
		}
		out.Write(to)
		if end {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// other is a line with another key, if it has one that is to change.
func other(line []byte, all []step) ([]byte, error) {
	r, err := records.DecodeRecord(bytes.Clone(line))
	if err != nil {
		return line, nil // no record: it counts for nothing
	}
	i := slices.IndexFunc(all, func(s step) bool { return s.experiment == r.Experiment && s.profile == r.Profile && s.from == r.Spec })
	if i < 0 {
		return line, nil
	}
	// Every number is there as it was: but for the digest and the sum, no byte differs.
	was := body(line)
	is := bytes.Replace(was, fmt.Appendf(nil, `"spec":"%s"`, r.Spec), fmt.Appendf(nil, `"spec":"%s"`, all[i].to), 1)
	if bytes.Equal(is, was) {
		return nil, fmt.Errorf("%s, %s, sample %s: its line has no such spec", r.Experiment, r.Profile, r.Sample)
	}
	return fmt.Appendf(is, `%s%s"}`, sumMark, machine.Digest(string(is))), nil
}

// body is a line without its sum.
func body(line []byte) []byte { return line[:bytes.LastIndex(line, []byte(sumMark))] }

const sumMark = `,"sha256":"`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dirs []string) error {
	all, err := steps(keys)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		names, err := filepath.Glob(records.File(dir, "*"))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := rewrite(name, all); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewrite gives the records of a file other keys. A file that a run adds to is an error.
func rewrite(name string, all []step) error {
	alone, err := files.OpenAppend(name, records.FileKind)
	if err != nil {
		return err
	}
	defer alone.Close()
	text, err := files.Read(name, records.FileKind)
	if err != nil {
		return err
	}
	to, err := rewritten(text, all)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	if bytes.Equal(to, text) {
		return nil
	}
	if err := files.Write(name, func(w io.Writer) error { _, err := w.Write(to); return err }); err != nil {
		return err
	}
	fmt.Println(name)
	return nil
}
