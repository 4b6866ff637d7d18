package machine

import (
	"testing"

	"gpipebench/internal/testkit"
)

func TestCrowded(t *testing.T) {
	testkit.Equal(t, parseCPULine("cpu  100 20 3 4000 500 60 7 800 90 10"), 9.9, "processor time")
	for _, line := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu a b c d e f g h"} {
		testkit.Equal(t, parseCPULine(line), -1, "%q", line)
	}
	for _, c := range []struct {
		others        float64
		needed, cores int
		want          bool
	}{{-1, 2, 2, false}, {0.05, 2, 2, false}, {0.2, 2, 2, true}, {1, 1, 2, false}, {1.2, 1, 2, true}, {30, 2, 64, false}} {
		testkit.Equal(t, Crowded(c.others, c.needed, c.cores), c.want, "crowded(%v, %d, %d)", c.others, c.needed, c.cores)
	}
}
