package gpipe

import (
	"testing"

	"gpipebench/gpipe/plan"
)

// The beginning of a step looks programs up once for each size of its micro-batches,
// not once for each micro-batch.
func TestProgramsAreLookedUpOnceASize(t *testing.T) {
	allocations := func(micro int) float64 {
		p := small.pipeline(t)
		p.MicroBatches = micro
		tr := opened(t, p, InputOf(small.data(0)))
		b := small.data(0)
		return testing.AllocsPerRun(20, func() {
			must(tr.begin(plan.Training, b))(t)
		})
	}
	if few, many := allocations(3), allocations(9); many-few > 3 {
		t.Errorf("%v allocations for 9 micro-batches, %v for 3", many, few)
	}
}
