package delayed

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// The bill is what late reduction takes, relative to early.
func TestDelayedReductionBill(t *testing.T) {
	d := &delayed{}
	d.Spec.Paper = lab.Verbatim{Text: "4", Value: 4}
	bill := d.bill(&footprint{Kept: [2]int64{10, 35}, PaperParams: [2]int64{5, 5}, PaperSaved: [2]int64{100, 390}, PaperFLOPs: [2]int64{2, 7}})
	none := math.NaN()
	same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
	for i, want := range [][]float64{{1, 4, none}, {1, 3.9, 3.5}, {none, 3.5, none}} {
		if !slices.EqualFunc(bill.Series[i].Values, want, same) {
			t.Errorf("%s: %v, want %v", bill.Series[i].Name, bill.Series[i].Values, want)
		}
	}
}

func TestDelayedReduction(t *testing.T) {
	d := labtest.Loaded[*delayed](t, Definition.Load)
	log := records.New(d.Key("smoke"))
	if err := d.Measure(context.Background(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := d.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	own, paper := r.Tables[0].Printed(), r.Tables[1].Printed()
	if len(own) != 2 || len(paper) != 2 || len(r.Tables[2].Rows) != 2*len(d.Spec.Profiles["smoke"].Seeds) {
		t.Fatalf("%v, %v", own, paper)
	}
	if own[0][1] != own[1][1] || paper[0][1] != paper[1][1] {
		t.Errorf("parameters differ: %v, %v", own, paper)
	}
	// "The activation memory footprint increased four times but the model size
	// stayed the same" (first version, section 5).
	if ratio := paper[1][3]; ratio < "3.8" || ratio > "4.2" || len(ratio) != 4 {
		t.Errorf("activations at the paper's scale: %s times, want about 4", ratio)
	}
	// Of images so small that roundings count.
	if ratio := own[1][3]; ratio < "2.5" || ratio > "4.2" {
		t.Errorf("activations: %s times", ratio)
	}
	runs := r.Tables[2].Printed()
	if runs[0][5] == runs[len(runs)-2][5] {
		t.Errorf("both networks end with the weights %s", runs[0][5])
	}
	labtest.CheckPlots(t, r)
}

func TestDelayedVerdict(t *testing.T) {
	d := &delayed{}
	for _, c := range []struct {
		late []float64
		want string
	}{
		{[]float64{63, 64, 62, 65, 63}, "as the paper says"},
		{[]float64{53, 54, 52, 55, 53}, "not what the paper says"},
		{[]float64{63, 54, 62, 55, 66}, "inconclusive"},
	} {
		if got := d.verdict(stats.Pairs(c.late, []float64{60, 59, 60, 61, 60})); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c.late, got)
		}
	}
}
