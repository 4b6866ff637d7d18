package main

import (
	"strings"
	"testing"
)

// The expected duration comes before the first step.
func TestExpectedDuration(t *testing.T) {
	for _, args := range []string{"train --steps 3", "bench --steps 2 --warmup 1 --vocab 16"} {
		status, _, stderr := execute(t, append(strings.Fields(args), tiny...)...)
		if first, _, _ := strings.Cut(stderr, "\n"); status != 0 || !strings.Contains(first, " steps, ") || !strings.HasSuffix(first, " s") {
			t.Errorf("%s: exit status %d, %q: want the duration in the first line", args, status, stderr)
		}
	}
}
