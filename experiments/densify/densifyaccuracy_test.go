package densify

import (
	"fmt"
	"strings"
	"testing"

	"gpipebench/lab/labtest"
	"gpipebench/lab/trained"
)

// Every training sees as many examples, to the mini-batch, with one tied table, and its rate rises
// over a tenth of all of its steps.
func TestAccuracyArms(t *testing.T) {
	x := labtest.Loaded[*trained.Experiment[struct{}]](t, Paper.Experiment("densify-accuracy").Load)
	for name, examples := range map[string]int{"smoke": 400, "quick": 20_000, "full": 400_000} {
		before := 0
		for _, a := range x.Spec.Arms {
			of := x.Spec.Training(x.Spec.Profiles[name], a, 1)
			rising := max(1, of.Steps/10)
			if left := examples - of.Steps*of.Batch; left < 0 || left >= of.Batch || of.Batch <= before || of.Model.Tied != "all" ||
				of.LRSchedule != fmt.Sprintf("warmup:%d,cosine:%d", rising, of.Steps-rising) || strings.Join(a.Axis, ", ") != fmt.Sprintf("%s, %d pairs", a.Name, of.Batch) {
				t.Errorf("%s, %s: %d steps of %d, %s", name, a.Name, of.Steps, of.Batch, of.LRSchedule)
			}
			before = of.Batch
		}
	}
}
