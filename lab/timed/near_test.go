package timed

import (
	"testing"

	"gpipebench/internal/stats"
	"gpipebench/internal/testkit"
)

// What is further off than the tolerance fails, unless both the ratio's interval
// and that of the emulated step leave it open.
func TestNearOne(t *testing.T) {
	steady := []float64{1, 1.01, 0.99, 1, 1.02, 0.98}
	disturbed := []float64{1, 1.01, 0.99, 1.3, 1.02, 0.98}
	ratios := func(x float64, last float64) []float64 { return []float64{x, x, x, x, x, last} }
	for _, c := range []struct {
		what     string
		modelled []float64 // over emulated, by round
		emulated []float64
		want     string
	}{
		{"near", ratios(1.05, 1.05), steady, "yes"},
		{"near on a noisy machine", ratios(1.05, 0.8), disturbed, "yes"},
		{"off", ratios(1.12, 1.12), steady, "no"},
		{"off, and the machine repeats itself", ratios(1.12, 1.05), steady, "no"},
		{"off in every round of a noisy machine", ratios(1.12, 1.12), disturbed, "no"},
		{"below in every round of a noisy machine", ratios(0.85, 0.8), disturbed, "no"},
		{"off, and the machine does not repeat itself", ratios(1.12, 1.05), disturbed, "noisy"},
		{"off in one round of one", []float64{1.12}, disturbed[:1], "no"},
	} {
		var times []float64
		for i := range c.modelled {
			times = append(times, c.modelled[i]*c.emulated[i])
		}
		testkit.Equal(t, NearOne(stats.RatioOf(times, c.emulated), Repetition(c.emulated), 10), c.want, "%s", c.what)
	}
}
