package mlperf

import (
	"math"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed/timedtest"
)

// evaluations is a log of steps that take 8 s over R and evaluations that take 4 s over R.
func evaluations(t *testing.T, x *evaluationMeasured, change func(r int, rec *evaluationRecord)) *records.Log {
	t.Helper()
	return timedtest.Filled(t, x, "quick", func(r, _ int) *evaluationRecord {
		rec := &evaluationRecord{Step: 8 / float64(r), Evaluate: 4 / float64(r), Padded: r - 1, Targets: 211, Loss: 2.5, Correct: 3}
		change(r, rec)
		return rec
	})
}

// On ideal devices the share of divided evaluations stays, and that of one is Amdahl's.
func TestEvaluationMeasuredReport(t *testing.T) {
	x := labtest.Loaded[*evaluationMeasured](t, Paper.Experiment("evaluation-measured").Load)
	table := timedtest.Reported(t, x, evaluations(t, x, func(int, *evaluationRecord) {})).Tables[0]
	for _, row := range table.Rows {
		r := row[table.Column("R")].Numbers[0]
		training := 16 * 8 / r
		labtest.CheckCells(t, table, row, map[string]float64{
			"measured training": training, "measured speedup": r, "measured share, all": 100 * 4 / r / (training + 4/r), "share, all, reference": 100 * 4 / r / (training + 4/r),
			"measured share, one": 100 * 4 / (training + 4), "Amdahl, one": 100 * 4 / (training + 4), "measured run, one / all": (training + 4) / (training + 4/r),
		})
		if row[table.Column("same bits")].Text != "yes" {
			t.Errorf("R = %v: other bits", r)
		}
	}
	for _, change := range []func(*evaluationRecord){
		func(rec *evaluationRecord) { rec.Loss = math.Nextafter(rec.Loss, 3) },
		func(rec *evaluationRecord) { rec.Correct++ },
		func(rec *evaluationRecord) { rec.Targets++ },
	} {
		timedtest.CheckVerdict(t, x, evaluations(t, x, func(r int, rec *evaluationRecord) {
			if r == 4 {
				change(rec)
			}
		}), "evaluation-measured: evaluations on 4 replicas have OTHER bits")
	}
	timedtest.CheckRecords(t, map[string]*evaluationRecord{
		"an evaluation of 0 s": {Step: 1},
		"2 of 1 targets":       {Step: 1, Evaluate: 1, Targets: 1, Correct: 2},
	})
}

// Passes of one size take their median, and the slowest replica counts.
func TestPassSeconds(t *testing.T) {
	times := func(a, b, c float64) *gpipe.Times {
		return &gpipe.Times{Examples: [][]int{{4, 4}, {3}}, Stages: []gpipe.StageTimes{{F: []float64{a, b}}, {F: []float64{c}}}}
	}
	// 4 examples take 2, and 3 take 1: two mini-batches of 2 + 2.
	if got := passSeconds([]*gpipe.Times{times(1, 2, 1), times(2, 50, 1)}); got != 8 {
		t.Errorf("%v s, want 8", got)
	}
	// If 3 take 5, the second replica is the slower one.
	if got := passSeconds([]*gpipe.Times{times(2, 2, 5)}); got != 5 {
		t.Errorf("%v s, want 5", got)
	}
}

// Measuring leaves what a report needs; what is padded is counted, and the bits are one
// replica's.
func TestEvaluationMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	x := labtest.Loaded[*evaluationMeasured](t, Paper.Experiment("evaluation-measured").Load)
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

func TestEvaluationMeasuredSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("evaluation-measured"), [][3]string{
		{"replicas: [1, 2, 4, 8]", "replicas: [2, 4, 8]", "want 1 first"},
		{"replicas: [1, 2, 4, 8]", "replicas: [1, 2, 6]", "2 replicas of 6 groups"},
		{"batch: 64", "batch: 60", "60 examples in 8 groups"},
		{"held_out: 811", "held_out: 810", "810 images on 2 replicas"},
		{"steps: 3", "steps: 0", "want a whole number from 1"},
	})
}
