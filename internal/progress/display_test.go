package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Plain progress shows the remaining time in both kinds of line, except in the
// last.
func TestTimeLeft(t *testing.T) {
	var text bytes.Buffer
	l := &lines{w: &text}
	l.Begin("work", 10_000_000)
	l.start = l.start.Add(-time.Hour)
	l.done = 999_998
	l.Advance("one")
	l.Line("two", "", true)
	l.done = 9_999_999
	l.Line("ten", "", true)
	got := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(got) != 4 || !strings.HasPrefix(got[1], "  999999/10000000  one, about 540 min left") || !strings.HasPrefix(got[2], "two, about ") || !strings.HasSuffix(got[2], " left") || got[3] != "ten" {
		t.Errorf("%q", got)
	}
}

// TestBarFits: the bar takes one line of a terminal, however narrow that is.
func TestBarFits(t *testing.T) {
	for _, width := range []int{20, 40, 59, 80} {
		var text bytes.Buffer
		b := &bar{w: &text, width: width}
		b.Begin("work: of some kind", 1_000_000)
		heading := text.Len()
		for range 3 {
			b.drawn = time.Time{}
			b.Advance(strings.Repeat("–", 60)) // of three bytes each
		}
		b.End()
		for _, line := range strings.FieldsFunc(text.String()[heading:], func(r rune) bool { return r == '\r' || r == '\n' }) {
			if n := len([]rune(line)); n >= width || !utf8.ValidString(line) {
				t.Errorf("%d columns: a line of %d: %q", width, n, line)
			}
		}
	}
}

// TestProgressIsPlain: names in progress messages cannot move the cursor.
func TestProgressIsPlain(t *testing.T) {
	var text bytes.Buffer
	for _, p := range []Display{&lines{w: &text}, &bar{w: &text, width: 80}} {
		p.Say("a file \x1b[2J\nhere")
		p.Begin("work on \x1b[2J", 2)
		p.Advance("\x1b[2J")
		p.Line("\x1b[2J", "\x1b[2J", true)
		p.End()
	}
	if strings.Contains(text.String(), "\x1b") {
		t.Errorf("%q", text.String())
	}
}
