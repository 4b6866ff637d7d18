package lab

import (
	"fmt"
	"strings"
	"testing"

	"gpipebench/internal/stats"
	"gpipebench/internal/testkit"
)

// There is an interval from the least number of values on, and a warning below.
func TestLeastForInterval(t *testing.T) {
	least := stats.LeastForInterval(0.95)
	for n := 1; n < 12; n++ {
		values := make([]float64, n)
		_, _, ok := stats.Interval(values, 0.95)
		few := FewRoundsNote(n)
		if ok != (n >= least) || ok != (len(few) == 0) || ok != (Bracketed(values, Seconds).Interval != nil) {
			t.Errorf("%d values: interval %v, least %d, notes %q, %q", n, ok, least, few, Bracketed(values, Seconds))
		}
		if !ok && !strings.Contains(few[0], fmt.Sprintf("n = %d rounds", n)) {
			t.Errorf("%d rounds: %q", n, few)
		}
		if seeds := FewSeedsNote(n); (len(seeds) == 0) != (n >= least) || len(seeds) > 0 && !strings.Contains(seeds[0], fmt.Sprintf("n = %d seed", n)) {
			t.Errorf("%d seeds: %q", n, seeds)
		}
	}
	testkit.Equal(t, Bracketed([]float64{3, 1, 2, 6, 5, 4}, func(x float64) Value { return Fixed(x, 0) }).Text, "[1, 6]")
}

func TestSigned(t *testing.T) {
	for x, want := range map[float64]string{0.126: "+13%", -0.126: "-13%", 0.004: "+0%", -0.004: "+0%", 0: "+0%"} {
		testkit.Equal(t, Signed(x).Text, want, "%v", x)
	}
}
