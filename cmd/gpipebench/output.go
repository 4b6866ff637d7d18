package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"gpipebench/experiments/progress"
	"gpipebench/internal/files"
	"gpipebench/internal/floatjson"
	"gpipebench/internal/plain"
	"gpipebench/internal/units"
	"gpipebench/internal/usage"
)

// output is where a command prints: results to out, progress to progress.
type output struct {
	out      io.Writer
	progress display
	width    int // of the terminal, for drawings
}

// display shows how far work is: a bar on a terminal, lines elsewhere.
type display interface {
	progress.Progress
	// Line is Advance for work whose every unit has a line to say, of which a
	// bar shows the short form. What is to be kept is shown in any case.
	Line(text, short string, keep bool)
}

func newOutput(out, err io.Writer) *output {
	o := &output{out: out, progress: &lines{w: err}, width: 100}
	if f, ok := err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.progress = &bar{w: err, width: columns(f)}
	}
	to := out
	if r, ok := out.(*results); ok {
		to = r.to
	}
	if f, ok := to.(*os.File); ok {
		o.width = min(max(columns(f), 40), 200)
	}
	return o
}

// columns is the width of a terminal, 100 if it is none.
func columns(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return 100
}

func (o *output) printf(format string, args ...any) error {
	_, err := io.WriteString(o.out, plain.Text(fmt.Sprintf(format, args...)))
	return err
}

// json prints a value as one JSON document.
func (o *output) json(v any) error { return floatjson.Write(o.out, v) }

// bar is the progress of a terminal.
type bar struct {
	w     io.Writer
	width int // of the terminal
	bar   *progressbar.ProgressBar
	what  string
	done  int
	drawn time.Time
}

// barWidth is what the bar takes beside its description: share, bar, count and times.
const barWidth = 50

// cut shortens a text to n characters, or not at all if that left nothing.
func cut(text string, n int) string {
	if n < 10 || len(text) <= n {
		return text
	}
	return text[:n-2] + ".."
}

// fitting writes to a terminal's last line, of which nothing may run over into
// another: what it would is left out.
type fitting struct {
	w     io.Writer
	width int // of the terminal
}

func (f fitting) Write(p []byte) (int, error) {
	parts := strings.Split(string(p), "\r") // each begins the line anew
	for i, part := range parts {
		if r := []rune(part); len(r) >= f.width {
			parts[i] = string(r[:f.width-1])
		}
	}
	if _, err := io.WriteString(f.w, strings.Join(parts, "\r")); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (b *bar) Begin(what string, units int) {
	what = plain.Line(what)
	fmt.Fprintln(b.w, what) // stays, and may be longer than what is left beside a bar
	what, _, _ = strings.Cut(what, ":")
	b.what, b.done = what, 0
	b.bar = progressbar.NewOptions(units,
		progressbar.OptionSetWriter(fitting{b.w, b.width}), progressbar.OptionSetDescription(cut(what, max(b.width-barWidth, 10))), progressbar.OptionSetWidth(10),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
	)
}

// The bar only decorates: what it cannot draw is no error of the work.

func (b *bar) Advance(detail string) {
	if b.bar != nil {
		b.done++
		if time.Since(b.drawn) < 100*time.Millisecond {
			return
		}
		b.drawn = time.Now()
		b.bar.Describe(cut(plain.Line(b.what+"  "+detail), max(b.width-barWidth, 10)))
		_ = b.bar.Set(b.done)
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
	fmt.Fprintln(b.w, plain.Line(line))
}

func (b *bar) Line(text, short string, keep bool) {
	if keep {
		b.Say(text)
	}
	b.Advance(short)
}

// lines is the progress of a file or pipe: a line now and then.
type lines struct {
	w           io.Writer
	what        string
	units, done int
	start, last time.Time
}

// interval is how often lines has something to say, at most.
const interval = 2 * time.Second

func (l *lines) Begin(what string, units int) {
	l.what, l.units, l.done, l.start = what, units, 0, time.Now()
	fmt.Fprintln(l.w, plain.Line(what))
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
		fmt.Fprintf(l.w, "  %d/%d  %s%s\n", l.done, l.units, plain.Line(detail), l.left())
	}
}

// left is how long the rest takes if it goes on like this, of work that lasts.
func (l *lines) left() string {
	gone := time.Since(l.start)
	rest := gone * time.Duration(l.units-l.done) / time.Duration(l.done)
	if gone < interval || rest < interval {
		return ""
	}
	return ", " + about(rest) + " left"
}

// about is how long something is expected to take.
func about(d time.Duration) string {
	if d < time.Second {
		return "less than 1 s"
	}
	return "about " + units.FormatWait(d)
}

func (l *lines) Line(text, _ string, keep bool) {
	if l.due() || keep {
		fmt.Fprintln(l.w, plain.Line(text+l.left()))
	}
}

func (l *lines) End()            {}
func (l *lines) Say(line string) { fmt.Fprintln(l.w, plain.Line(line)) }

// checkOutputs fails early if a file that flags name could not be written at the
// end, or if two of them would take each other's place. Outputs are flags and what
// they name; "": nothing.
func checkOutputs(outputs ...[2]string) error {
	for i, o := range outputs {
		for _, before := range outputs[:i] {
			if o[1] != os.DevNull && o[1] != "" && files.Same(o[1], before[1]) {
				return &usage.Error{Err: fmt.Errorf("--%s and --%s both name %s: want two files", before[0], o[0], o[1])}
			}
		}
		if err := files.CheckWritable(o[1]); err != nil {
			return err
		}
	}
	return nil
}

// firstWord is a progress of which something is heard within a time, be it only
// that work goes on.
type firstWord struct {
	mutex sync.Mutex
	display
	timer *time.Timer
}

// awaited has p say a line if nothing else was said until patience ends.
func awaited(p display, patience time.Duration, line string) *firstWord {
	f := &firstWord{display: p}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.timer = time.AfterFunc(patience, func() {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		if f.timer != nil {
			f.display.Say(line)
		}
	})
	return f
}

// stop ends the waiting; it returns the progress that is then free to use.
func (f *firstWord) stop() display {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	return f.display
}

func (f *firstWord) Begin(what string, units int)       { f.stop().Begin(what, units) }
func (f *firstWord) Advance(detail string)              { f.stop().Advance(detail) }
func (f *firstWord) End()                               { f.stop().End() }
func (f *firstWord) Say(line string)                    { f.stop().Say(line) }
func (f *firstWord) Line(text, short string, keep bool) { f.stop().Line(text, short, keep) }
