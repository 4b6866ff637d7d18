package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/floatjson"
	"gpipebench/internal/printable"
	"gpipebench/internal/progress"
)

// output is where a command prints: results to out, progress to progress.
type output struct {
	out      io.Writer
	progress progress.Display
	width    int  // of the terminal, for drawings
	follows  bool // another process prints, and this one nothing
}

func (o *output) printf(format string, args ...any) error {
	_, err := io.WriteString(o.out, printable.Text(fmt.Sprintf(format, args...)))
	return err
}

// json prints a value as one JSON document.
func (o *output) json(v any) error { return floatjson.Write(o.out, v) }

// traceFlag adds --trace for a step.
func traceFlag(fs *pflag.FlagSet, to *string, step string) {
	fileFlag(fs, to, "trace", "file for "+step+" step's timeline: .json (Chrome trace), .svg or .txt", draw.Endings...)
}

// writeTimeline writes a step's timeline to a file, if there is a name for one.
func writeTimeline(name string, tl *timeline.Timeline) error {
	if name == "" {
		return nil
	}
	return files.Write(name, func(w io.Writer) error { return draw.Write(w, name, tl) })
}

// checkOutputs fails early if a file that flags name could not be written at the
// end, or if two flags name the same file. Inputs, which are read before, and outputs are flags and
// the files that they name, "" for none.
func checkOutputs(inputs [][2]string, outputs ...[2]string) error {
	for i, o := range outputs {
		for _, other := range slices.Concat(inputs, outputs[:i]) {
			if files.Same(o[1], other[1]) {
				return failure.Usagef("--%s and --%s both name %s: want two files", other[0], o[0], o[1])
			}
		}
		if err := files.CheckWritable(o[1]); err != nil {
			return err
		}
	}
	return nil
}
