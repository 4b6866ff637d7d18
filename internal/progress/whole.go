package progress

import (
	"strings"
	"time"

	"gpipebench/internal/units"
)

// Over shows pieces of work, one after another, as one: what is done and what is left of all, by how
// long each is expected to take. Their progress goes to of; next is called with a line before each
// piece, and end before anything else is printed. If p is no Display, or there is one piece alone, it
// shows itself.
func Over(p Progress, expected []time.Duration) (of Progress, next func(line string), end func()) {
	d, ok := p.(Display)
	if !ok || len(expected) < 2 {
		return p, p.Say, func() {}
	}
	w := &whole{Display: d, expected: expected, at: -1}
	return w, w.next, d.End
}

// whole is the progress of pieces of work.
type whole struct {
	Display
	expected    []time.Duration
	at          int // of expected: the piece that is at work
	start       time.Time
	what        string // the part of it that has begun last
	units, done int
	begun       time.Time
}

func (w *whole) next(line string) {
	w.at, w.start, w.done = w.at+1, time.Now(), 0
	w.show(line, true)
}

func (w *whole) Begin(what string, units int) {
	w.units, w.done, w.begun = units, 0, time.Now()
	w.show(what, false)
	w.what, _, _ = strings.Cut(what, ":")
}

func (w *whole) Advance(detail string) {
	w.done++
	w.show(w.what+"  "+detail, false)
}

// End leaves the whole's share as it is.
func (w *whole) End() {}

// show shows the share that is done, and what is left: of the piece at work what its expected time
// or, if that is more, its own speed says.
func (w *whole) show(text string, keep bool) {
	sum := func(of []time.Duration) (all time.Duration) {
		for _, e := range of {
			all += e
		}
		return all
	}
	spent := time.Since(w.start)
	left := max(w.expected[w.at]-spent, 0)
	if w.done > 0 {
		left = max(left, restOf(w.begun, w.units, w.done))
	}
	done := float64(sum(w.expected[:w.at])) + float64(w.expected[w.at])*float64(spent)/max(1, float64(spent+left))
	w.Share(done/max(1, float64(sum(w.expected))), text, units.About(left+sum(w.expected[w.at+1:]))+" left", keep)
}

// restOf returns how long the units that are left take at the speed of those that are done.
func restOf(begun time.Time, units, done int) time.Duration {
	return time.Duration(float64(time.Since(begun)) * float64(units-done) / float64(done))
}
