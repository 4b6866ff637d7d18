package mlperf

import (
	"math"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed/timedtest"
)

// An evaluation that finds something else is a verdict.
func TestEvaluationMeasuredVerdict(t *testing.T) {
	x := labtest.Loaded[*evaluationMeasured](t, Paper.Experiment("evaluation-measured").Load)
	for _, change := range []func(*evaluationRecord){
		func(rec *evaluationRecord) { rec.Loss = math.Nextafter(rec.Loss, 9) },
		func(rec *evaluationRecord) { rec.Correct++ },
		func(rec *evaluationRecord) { rec.Targets++ },
	} {
		labtest.CheckVerdict(t, x, x.Sample(4, 1), change, "evaluation-measured: evaluations on 4 replicas have OTHER bits")
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
	testkit.Equal(t, passSeconds([]*gpipe.Times{times(1, 2, 1), times(2, 50, 1)}), 8, "s")
	// If 3 take 5, the second replica is the slower one.
	testkit.Equal(t, passSeconds([]*gpipe.Times{times(2, 2, 5)}), 5, "s")
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
	testkit.Equal(t, len(log.Names), len(x.Spec.Replicas), "samples %v", log.Names)
	report := labtest.Reported(t, x, log)
	for i, want := range []string{"0", "1", "3", "3"} { // 37 images: 32, and 5
		testkit.Equal(t, report.Tables[0].Rows[i][report.Tables[0].Column("padded")].Text, want, "row %d: padded", i)
	}
}

func TestEvaluationMeasuredSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("evaluation-measured"), [][3]string{
		{"replicas: [1, 2, 4, 8]", "replicas: [2, 4, 8]", "want 1 first"},
		{"batch: 64", "batch: 60", "60 examples in 8 groups"},
		{"held_out: 811", "held_out: 810", "810 images on 2 replicas"},
		{"steps: 3", "steps: 0", "want a whole number from 1"},
	})
}
