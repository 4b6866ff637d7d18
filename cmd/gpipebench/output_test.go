package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// Plain progress tells how long the rest takes, in either kind of line, and the
// last line, of which nothing is left, does not.
func TestTimeLeft(t *testing.T) {
	var text bytes.Buffer
	l := &lines{w: &text}
	l.Begin("work", 10)
	l.start = l.start.Add(-time.Hour)
	l.Advance("one")
	l.Line("two", "", true)
	l.done = 9
	l.Line("ten", "", true)
	got := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(got) != 4 || !strings.HasPrefix(got[1], "  1/10  one, about ") || !strings.HasPrefix(got[2], "two, about ") || !strings.HasSuffix(got[2], " left") || got[3] != "ten" {
		t.Errorf("%q", got)
	}
}

// The expected duration comes before the first step.
func TestExpectedDuration(t *testing.T) {
	for _, args := range []string{"train --steps 3", "bench --steps 2 --warmup 1 --vocab 16"} {
		status, _, stderr := execute(t, append(strings.Fields(args), tiny...)...)
		if first, _, _ := strings.Cut(stderr, "\n"); status != 0 || !strings.Contains(first, " steps, ") || !strings.HasSuffix(first, " s") {
			t.Errorf("%s: exit status %d, %q: want the duration in the first line", args, status, stderr)
		}
	}
}
