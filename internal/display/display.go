// Package display shows how far work is: as a bar on a terminal, as lines elsewhere.
package display

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"gpipebench/internal/plain"
	"gpipebench/internal/units"
)

// Display shows how far work is.
type Display interface {
	// Begin starts a piece of work of so many units.
	Begin(what string, units int)
	// Advance shows that one more unit is done, and something about it.
	Advance(detail string)
	// Line is Advance for work whose every unit has a line, of which a bar shows
	// the short form. A line to keep is shown in any case.
	Line(text, short string, keep bool)
	// End ends the piece of work.
	End()
	// Say shows a line that is not about any unit.
	Say(line string)
}

// New returns the display that suits w. If it shows nothing for a while (a second on a
// terminal, ten elsewhere), notice is shown, unless stop is called before.
func New(w io.Writer, notice string) (d Display, stop func()) {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		heard := awaited(w, time.Second, notice)
		return &bar{w: heard, width: Columns(f)}, heard.stop
	}
	heard := awaited(w, 10*time.Second, notice) // in a log, what takes seconds need not be announced
	return &lines{w: heard}, heard.stop
}

// Columns returns the width of a terminal, 100 if f is none.
func Columns(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return 100
}

// bar is the display of a terminal.
type bar struct {
	w     io.Writer
	width int // of the terminal
	bar   *progressbar.ProgressBar
	what  string
	done  int
	drawn time.Time
}

// barWidth is how many columns share, bar, count and times take beside the description.
const barWidth = 50

// cut shortens a text to n characters, or not at all if that left nothing.
func cut(text string, n int) string {
	if n < 10 || len(text) <= n {
		return text
	}
	return text[:n-2] + ".."
}

// fitting writes to a terminal's last line, and leaves out what would run over into
// another.
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

// Advance ignores errors: a bar that cannot be drawn is no error of the work.
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

// lines is the display of a file or pipe: a line now and then.
type lines struct {
	w           io.Writer
	what        string
	units, done int
	start, last time.Time
}

// interval is the least time between two lines.
const interval = 2 * time.Second

func (l *lines) Begin(what string, units int) {
	l.what, l.units, l.done, l.start = what, units, 0, time.Now()
	fmt.Fprintln(l.w, plain.Line(what))
}

// due reports whether the unit that has just been done is to be shown: the first,
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

// left returns how long the rest takes at the same speed, "" of short work.
func (l *lines) left() string {
	gone := time.Since(l.start)
	rest := gone * time.Duration(l.units-l.done) / time.Duration(l.done)
	if gone < interval || rest < interval {
		return ""
	}
	return ", " + units.About(rest) + " left"
}

func (l *lines) Line(text, _ string, keep bool) {
	if l.due() || keep {
		fmt.Fprintln(l.w, plain.Line(text+l.left()))
	}
}

func (l *lines) End()            {}
func (l *lines) Say(line string) { fmt.Fprintln(l.w, plain.Line(line)) }

// firstWord is a writer that something is written to within a time.
type firstWord struct {
	w     io.Writer
	mutex sync.Mutex
	timer *time.Timer // nil: nothing is waited for any more
}

// awaited returns a writer to w that writes a line if nothing else is written until
// patience ends.
func awaited(w io.Writer, patience time.Duration, line string) *firstWord {
	f := &firstWord{w: w}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.timer = time.AfterFunc(patience, func() {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		if f.timer != nil {
			fmt.Fprintln(w, plain.Line(line))
		}
	})
	return f
}

func (f *firstWord) Write(p []byte) (int, error) {
	f.stop()
	return f.w.Write(p)
}

// stop ends the waiting.
func (f *firstWord) stop() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}
