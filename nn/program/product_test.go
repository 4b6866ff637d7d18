package program

import "testing"

// The rate of one core is measured over matrix products, not over their overhead.
func TestCoreRate(t *testing.T) {
	if testing.Short() {
		t.Skip("slow without assembly")
	}
	rate, err := CoreRate(t.Context())
	if err != nil || !(rate > 1e8 && rate < 1e13) {
		t.Errorf("%v, %v", rate, err)
	}
}
