package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"gpipebench/experiments"
)

// output is where a command prints: results to out, progress to progress.
type output struct {
	out      io.Writer
	progress progress
	width    int // of the terminal, for drawings
}

// progress shows how far work is: a bar on a terminal, lines elsewhere.
type progress interface {
	experiments.Progress
	// Line is Advance for work whose every unit has something to say.
	Line(text string, keep bool)
}

func newOutput(out, err io.Writer) *output {
	o := &output{out: out, progress: &lines{w: err}, width: 100}
	if f, ok := err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.progress = &bar{w: err}
	}
	if f, ok := out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w >= 40 {
			o.width = min(w, 200)
		}
	}
	return o
}

func (o *output) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(o.out, format, args...)
	return err
}

// json prints a value as one JSON document.
func (o *output) json(v any) error {
	e := json.NewEncoder(o.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// bar is the progress of a terminal.
type bar struct {
	w    io.Writer
	bar  *progressbar.ProgressBar
	what string
}

func (b *bar) Begin(what string, units int) {
	b.what = what
	b.bar = progressbar.NewOptions(units,
		progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(20),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
}

// The bar only decorates: what it cannot draw is no error of the work.

func (b *bar) Advance(detail string) {
	if b.bar != nil {
		b.bar.Describe(b.what + "  " + detail)
		_ = b.bar.Add(1)
	}
}

func (b *bar) End() {
	if b.bar != nil {
		_ = b.bar.Finish()
		b.bar = nil
	}
}

func (b *bar) Say(line string) {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
	fmt.Fprintln(b.w, line)
}

func (b *bar) Line(text string, keep bool) {
	if keep {
		b.Say(text)
	}
	b.Advance(text)
}

// lines is the progress of a file or pipe: a line now and then.
type lines struct {
	w           io.Writer
	what        string
	units, done int
	last        time.Time
}

// interval is how often lines has something to say, at most.
const interval = 2 * time.Second

func (l *lines) Begin(what string, units int) {
	l.what, l.units, l.done = what, units, 0
	fmt.Fprintln(l.w, what)
}

// due tells whether the unit that has just been done is to be shown: the first,
// the last, and others if some time has passed or there are few.
func (l *lines) due() bool {
	l.done++
	if l.done > 1 && l.done < l.units && l.units > 20 && time.Since(l.last) < interval {
		return false
	}
	l.last = time.Now()
	return true
}

func (l *lines) Advance(detail string) {
	if l.due() {
		fmt.Fprintf(l.w, "  %d/%d  %s\n", l.done, l.units, detail)
	}
}

func (l *lines) Line(text string, keep bool) {
	if l.due() || keep {
		fmt.Fprintln(l.w, text)
	}
}

func (l *lines) End()            {}
func (l *lines) Say(line string) { fmt.Fprintln(l.w, line) }
