package gpipe

import (
	"fmt"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// The theory of Table 2's AmoebaNet at the paper's scale is what its
// multiply-adds alone give: far above what the paper measured.
func TestAmoebanetTheory(t *testing.T) {
	e := labtest.Loaded[*table2Amoebanet](t, Paper.Experiment("table2-amoebanet").Load)
	costs := testkit.Must(train.FlopsOf(e.Spec.PaperModel))(t)
	base := amoebanetSetup(train.FLOPs, e.Spec.Base)
	for k, want := range map[int]string{2: "1.65", 4: "3.11", 8: "5.34"} {
		got, err := timed.Against(func(s train.Setup) (float64, error) { return timed.CutStep(s, costs) }, base, amoebanetSetup(train.FLOPs, lab.Cell{K: k, M: 32}))
		if err != nil || fmt.Sprintf("%.2f", got) != want {
			t.Errorf("K = %d, M = 32: %.3f, %v; want %s", k, got, err, want)
		}
	}
}

func TestAmoebanetSpecErrors(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("table2-amoebanet"), [][3]string{
		{"    batch: 32", "    batch: 31", "not of one size"},
	})
}
