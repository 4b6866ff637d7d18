package beyond

import (
	"math"
	"strings"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
)

// ideal is a device on which an example takes the same time in every run.
func ideal(run *timed.Run, _ int) float64 { return float64(run.Training.Batch) }

// On ideal devices that add up in no time every efficiency is 1.
func TestScalingReport(t *testing.T) {
	s := labtest.Loaded[*replicasScaling](t, Paper.Experiment("replicas-scaling").Load)
	r, log := timedtest.Start(t, s)
	timedtest.FillRounds(t, log, r, 0, ideal)
	report, err := s.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	table := report.Tables[0]
	if want := 2 * (2*len(s.Spec.Replicas) - 1); len(table.Rows) != want {
		t.Errorf("%d rows, want %d", len(table.Rows), want)
	}
	for _, row := range table.Rows {
		of := func(name string) lab.Value { return row[table.Column(name)] }
		for _, name := range []string{"measured efficiency", "reference efficiency"} {
			if math.Abs(of(name).Numbers[0]-1) > 1e-6 {
				t.Errorf("%v: %s %v", row[:3], name, of(name))
			}
		}
		if got := of("measured all-reduce"); got.Numbers[0] != 0 {
			t.Errorf("%v: all-reduce %v", row[:3], got)
		}
		if got := of("measured divided / whole"); (row[1].Text == "divided") != (len(got.Numbers) == 1 && math.Abs(got.Numbers[0]-1) < 1e-6) {
			t.Errorf("%v: divided / whole %v", row[:3], got)
		}
		if want := map[string]float64{weak: of("R").Numbers[0], strong: 8}[row[0].Text]; of("mini-batch").Numbers[0] != 4*want {
			t.Errorf("%v: a mini-batch of %v", row[:3], of("mini-batch"))
		}
	}
	var names []string
	for _, f := range report.Files {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "replicas-scaling.svg replicas-scaling-R2-K2.timeline.svg replicas-scaling-R2-K2.timeline.txt replicas-scaling-R2-K2.trace.json" {
		t.Errorf("files %s", got)
	}
	if drawn := report.Files[2].Text; strings.Count(drawn, "|") != 2*4 {
		t.Errorf("not four devices:\n%s", drawn)
	}
}

func TestScalingSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("replicas-scaling"), [][3]string{
		{"replicas: [1, 2, 4, 8]", "replicas: [2, 4, 8]", "want 1 first"},
		{"m: 2\n", "m: 3\n", "3 micro-batches of 4 examples are not of one size"},
	})
}
