package main

import (
	"strings"
	"testing"
)

// The expected duration comes before the first step.
func TestExpectedDuration(t *testing.T) {
	for _, args := range []string{"train --steps 3", "bench --steps 2 --warmup 1 --vocab 16"} {
		_, stderr := succeeds(t, append(strings.Fields(args), tiny...)...)
		if first, _, _ := strings.Cut(stderr, "\n"); !strings.Contains(first, " steps, ") || !strings.HasSuffix(first, " s") {
			t.Errorf("%s: %q: want the duration in the first line", args, stderr)
		}
	}
}
