package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"gpipebench/internal/printable"
	"gpipebench/internal/units"
)

// Display shows the progress of work.
type Display interface {
	Progress
	// Line is Advance for work with a line per unit, whose short form a bar
	// shows. If keep is set, the line is always shown.
	Line(text, short string, keep bool)
	// Share is Line for work whose units are not counted, without Begin: done is what is done of 1,
	// and left is how long the rest takes, in words.
	Share(done float64, text, left string, keep bool)
}

// New returns the display that suits w.
func New(w io.Writer) Display {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &bar{w: w, width: Columns(f)}
	}
	return &lines{w: w}
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

// barWidth is the number of columns that share, bar, count and times take
// besides the description, and shareWidth those of share and bar alone.
const (
	barWidth   = 50
	shareWidth = 25
)

// cut shortens a text to n characters, unless that would leave almost nothing.
func cut(text string, n int) string {
	r := []rune(text)
	if n < 10 || len(r) <= n {
		return text
	}
	return string(r[:n-2]) + ".."
}

// fitting writes to a terminal's last line, and cuts off what would continue on
// another.
type fitting struct {
	w     io.Writer
	width int // of the terminal
}

func (f fitting) Write(p []byte) (int, error) {
	parts := strings.Split(string(p), "\r") // each starts the line again
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
	what = printable.Line(what)
	fmt.Fprintln(b.w, what) // stays, and may be longer than the space beside a bar
	what, _, _ = strings.Cut(what, ":")
	b.what, b.done = what, 0
	b.open(units, progressbar.OptionSetDescription(b.beside(what, barWidth)), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true))
}

// open begins a bar.
func (b *bar) open(units int, more ...progressbar.Option) {
	b.bar = progressbar.NewOptions(units, append(more,
		progressbar.OptionSetWriter(fitting{b.w, b.width}), progressbar.OptionSetWidth(10), progressbar.OptionClearOnFinish())...)
}

// beside is a text as it stands beside what takes a number of columns.
func (b *bar) beside(text string, columns int) string {
	return cut(printable.Line(text), max(b.width-columns, 10))
}

// Advance ignores errors: a bar that cannot be drawn is not an error of the
// work.
func (b *bar) Advance(detail string) {
	if b.bar != nil {
		b.done++
		b.draw(b.done, b.beside(b.what+"  "+detail, barWidth))
	}
}

func (b *bar) draw(done int, text string) {
	if time.Since(b.drawn) < 100*time.Millisecond {
		return
	}
	b.drawn = time.Now()
	_ = b.bar.Set(done)
	b.bar.Describe(text)
}

func (b *bar) Share(done float64, text, left string, keep bool) {
	const all = 1000
	if b.bar == nil {
		b.open(all, progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
	}
	if keep {
		b.drawn = time.Time{}
	}
	b.draw(int(all*done), b.beside(left+"  "+text, shareWidth))
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
	fmt.Fprintln(b.w, printable.Line(line))
}

func (b *bar) Line(text, short string, keep bool) {
	if keep {
		b.Say(text)
	}
	b.Advance(short)
}

// lines is the display of a file or pipe: a line from time to time.
type lines struct {
	w           io.Writer
	what        string
	units, done int
	start, last time.Time
}

// interval is the minimum time between two lines.
const interval = 2 * time.Second

func (l *lines) Begin(what string, units int) {
	l.what, l.units, l.done, l.start = what, units, 0, time.Now()
	fmt.Fprintln(l.w, printable.Line(what))
}

// due reports whether to show the unit just done: the first, the last, and
// others if some time has passed or there are few.
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
		fmt.Fprintf(l.w, "  %d/%d  %s%s\n", l.done, l.units, printable.Line(detail), l.left())
	}
}

// left returns the time for the rest at the same speed, "" if it is short.
func (l *lines) left() string {
	rest := restOf(l.start, l.units, l.done)
	if time.Since(l.start) < interval || rest < interval {
		return ""
	}
	return ", " + units.About(rest) + " left"
}

func (l *lines) Line(text, _ string, keep bool) {
	if l.due() || keep {
		fmt.Fprintln(l.w, printable.Line(text+l.left()))
	}
}

func (l *lines) Share(done float64, text, left string, keep bool) {
	if keep || time.Since(l.last) >= interval {
		l.last = time.Now()
		fmt.Fprintf(l.w, "%3.0f%%  %s, %s\n", 100*done, printable.Line(text), left)
	}
}

func (l *lines) End()            {}
func (l *lines) Say(line string) { fmt.Fprintln(l.w, printable.Line(line)) }
