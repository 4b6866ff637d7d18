package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Pieces of work are shown as one: by the time that each is expected to take, and by its own speed if
// that is less.
func TestWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		p, next, end := Over(&lines{w: &text}, []time.Duration{time.Minute, 2 * time.Minute, time.Minute})
		next("one") // all is left
		time.Sleep(30 * time.Second)
		p.Begin("one: 2 parts", 2) // half a minute of its own
		time.Sleep(time.Second)
		p.Advance("soon after") // within the interval of lines
		time.Sleep(2 * time.Second)
		p.Advance("all of it") // by its speed nothing is left, and half a minute was expected
		p.End()
		p.Say("a word between")
		next("two") // though one took less than a minute
		p.Begin("two: 4 parts", 4)
		time.Sleep(80 * time.Second)
		p.Advance("first of four") // by its speed 4 minutes are left of it
		p.End()
		next("three")
		time.Sleep(2 * time.Minute)
		p.Begin("three: late", 1)
		end()
		want := []string{
			"  0%  one, about 4.0 min left",
			" 12%  one: 2 parts, about 3.5 min left",
			" 14%  one  all of it, about 3.5 min left",
			"a word between",
			" 25%  two, about 3.0 min left",
			" 38%  two  first of four, about 5.0 min left",
			" 75%  three, about 1.0 min left",
			"100%  three: late, less than 1 s left",
		}
		if got := strings.Split(strings.TrimRight(text.String(), "\n"), "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A single piece of work, and one that nothing displays, shows itself.
func TestWholeOfOne(t *testing.T) {
	var text bytes.Buffer
	l := &lines{w: &text}
	p, next, end := Over(l, []time.Duration{time.Minute})
	next("alone")
	end()
	if p != Progress(l) || text.String() != "alone\n" {
		t.Errorf("%T, %q", p, text.String())
	}
	if p, _, _ := Over(Silent{}, make([]time.Duration, 3)); p != Progress(Silent{}) {
		t.Errorf("%T", p)
	}
}

// All of it is one bar of one line on a terminal, and what is said stands above.
func TestWholeBar(t *testing.T) {
	var text bytes.Buffer
	b := &bar{w: &text, width: 80}
	p, next, end := Over(b, []time.Duration{time.Hour, time.Hour})
	for _, piece := range []string{"one: of two, with a line that is longer than what there is beside a bar", "two: of two, with such a line as well, which has no end before its bar"} {
		next(piece)
		p.Begin(piece, 10)
		b.drawn = time.Time{}
		p.Advance("a detail that is about as long as those of real work are, or longer still")
		p.End()
		p.Say("said")
	}
	end()
	for _, line := range strings.FieldsFunc(text.String(), func(r rune) bool { return r == '\r' || r == '\n' }) {
		if n := len([]rune(line)); n >= 80 {
			t.Errorf("a line of %d: %q", n, line)
		}
	}
	if n := strings.Count(text.String(), "\n"); n != 2 || !strings.Contains(text.String(), "50%") {
		t.Errorf("%d lines besides the bar, want what is said alone:\n%q", n, text.String())
	}
}
