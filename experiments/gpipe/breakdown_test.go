package gpipe

import (
	"testing"

	"gpipebench/lab/labtest"
	"gpipebench/lab/timed/timedtest"
)

// On even stages theory and measurement are one.
func TestBreakdownReportOnEvenStages(t *testing.T) {
	b := labtest.Loaded[*breakdown](t, Paper.Experiment("breakdown").Load)
	rounds, log := timedtest.Start(t, b)
	timedtest.FillRounds(t, log, rounds, 0, timedtest.Even)
	r, err := b.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	timedtest.CheckSame(t, r.Tables[0], "theory, K = 2", "measured, K = 2", "reference, K = 2")
	timedtest.CheckSame(t, r.Tables[0], "theory, K = 4", "measured, K = 4", "reference, K = 4")
}
