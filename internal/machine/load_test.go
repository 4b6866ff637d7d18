package machine

import (
	"testing"
)

func TestCrowded(t *testing.T) {
	if got := parseCPULine("cpu  100 20 3 4000 500 60 7 800 90 10"); got != 9.9 {
		t.Errorf("processor time %v, want 9.9", got)
	}
	for _, line := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu a b c d e f g h"} {
		if got := parseCPULine(line); got != -1 {
			t.Errorf("%q: %v, want -1", line, got)
		}
	}
	for _, c := range []struct {
		others        float64
		needed, cores int
		want          bool
	}{{-1, 2, 2, false}, {0.05, 2, 2, false}, {0.2, 2, 2, true}, {1, 1, 2, false}, {1.2, 1, 2, true}, {30, 2, 64, false}} {
		if got := Crowded(c.others, c.needed, c.cores); got != c.want {
			t.Errorf("crowded(%v, %d, %d) = %v", c.others, c.needed, c.cores, got)
		}
	}
}
