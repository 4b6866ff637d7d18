package measured

import (
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// filled is a log of steps that take 8 s over R and evaluations that take 4 s over R.
func filled(t *testing.T, x *measured, change func(r int, rec *Record)) *records.Log {
	t.Helper()
	log := records.New(x.Key("quick"))
	for round := range x.Spec.Profiles["quick"].Rounds {
		for _, r := range x.Spec.Replicas {
			rec := Record{Step: 8 / float64(r), Evaluate: 4 / float64(r), Padded: r - 1, Targets: 211, Loss: 2.5, Correct: 3}
			change(r, &rec)
			if err := log.Add(name(r, round), 1, rec); err != nil {
				t.Fatal(err)
			}
		}
	}
	return log
}

// On ideal devices the share of divided evaluations stays, and that of one is Amdahl's.
func TestReport(t *testing.T) {
	x := labtest.Loaded[*measured](t, Definition.Load)
	labtest.CheckLacking(t, x, records.New(x.Key("quick")))
	log := filled(t, x, func(int, *Record) {})
	report, err := x.Report(log, log)
	if err != nil || report.Verdict != nil {
		t.Fatal(err, report.Verdict)
	}
	labtest.CheckPlots(t, report)
	table := report.Tables[0]
	for _, row := range table.Rows {
		of := func(name string) lab.Value { return row[table.Column(name)] }
		r := of("R").Numbers[0]
		training := 16 * 8 / r
		labtest.CheckCells(t, table, row, map[string]float64{
			"measured training": training, "measured speedup": r, "measured share, all": 100 * 4 / r / (training + 4/r), "share, all, reference": 100 * 4 / r / (training + 4/r),
			"measured share, one": 100 * 4 / (training + 4), "Amdahl, one": 100 * 4 / (training + 4), "measured run, one / all": (training + 4) / (training + 4/r),
		})
		if of("same bits").Text != "yes" {
			t.Errorf("R = %v: other bits", r)
		}
	}
}

// Another loss or count on some replicas is a verdict.
func TestVerdict(t *testing.T) {
	x := labtest.Loaded[*measured](t, Definition.Load)
	for _, change := range []func(*Record){
		func(rec *Record) { rec.Loss = math.Nextafter(rec.Loss, 3) },
		func(rec *Record) { rec.Correct++ },
		func(rec *Record) { rec.Targets++ },
	} {
		report, err := x.Report(filled(t, x, func(r int, rec *Record) {
			if r == 4 {
				change(rec)
			}
		}), nil)
		if err != nil || report.Verdict == nil || !strings.Contains(report.Verdict.Error(), "on 4 replicas have OTHER bits") {
			t.Errorf("%v, verdict %v", err, report.Verdict)
		}
	}
}

// Passes of one size take their median, and the slowest replica counts.
func TestPasses(t *testing.T) {
	times := func(a, b, c float64) *gpipe.Times {
		return &gpipe.Times{Examples: [][]int{{4, 4}, {3}}, Stages: []gpipe.StageTimes{{F: []float64{a, b}}, {F: []float64{c}}}}
	}
	// 4 examples take 2, and 3 take 1: two mini-batches of 2 + 2.
	if got := passes([]*gpipe.Times{times(1, 2, 1), times(2, 50, 1)}); got != 8 {
		t.Errorf("%v s, want 8", got)
	}
	// If 3 take 5, the second replica is the slower one.
	if got := passes([]*gpipe.Times{times(2, 2, 5)}); got != 5 {
		t.Errorf("%v s, want 5", got)
	}
}

// Measuring leaves what a report needs; what is padded is counted, and the bits are one
// replica's.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	x := labtest.Loaded[*measured](t, Definition.Load)
	log := records.New(x.Key("smoke"))
	labtest.MeasureTwice(t, x, log)
	if len(log.Names) != len(x.Spec.Replicas) {
		t.Errorf("samples %v", log.Names)
	}
	report, err := x.Report(log, nil)
	if err != nil || report.Verdict != nil {
		t.Fatal(err, report.Verdict)
	}
	for i, want := range []string{"0", "1", "3", "3"} { // 37 images: 32, and 5
		if got := report.Tables[0].Rows[i][report.Tables[0].Column("padded")].Text; got != want {
			t.Errorf("row %d: %s padded, want %s", i, got, want)
		}
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"replicas: [1, 2, 4, 8]", "replicas: [2, 4, 8]", "want 1 first"},
		{"replicas: [1, 2, 4, 8]", "replicas: [1, 2, 6]", "2 replicas of 6 groups"},
		{"batch: 64", "batch: 60", "60 examples in 8 groups"},
		{"held_out: 811", "held_out: 810", "810 images on 2 replicas"},
		{"steps: 3", "steps: 0", "want a whole number from 1"},
	})
	for says, r := range map[string]Record{
		"an evaluation of 0 s": {Step: 1},
		"2 of 1 targets":       {Step: 1, Evaluate: 1, Targets: 1, Correct: 2},
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
