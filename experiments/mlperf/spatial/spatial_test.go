package spatial

import (
	"math"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// An even share and the causes are the step, of every number of cores and images, and one
// core loses nothing.
func TestReport(t *testing.T) {
	s := labtest.Loaded[*spatial](t, Definition.Load)
	log := records.New(s.Key("quick"))
	labtest.CheckLacking(t, s, log)
	labtest.MeasureTwice(t, s, log)
	if len(log.Names) != len(s.Spec.Cores)*len(s.Spec.Examples) {
		t.Errorf("samples %v", log.Names)
	}
	r, err := s.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	labtest.CheckPlots(t, r)
	table := r.Tables[0]
	of := func(row []lab.Value, column string) float64 { return row[table.Column(column)].Numbers[0] }
	for i, row := range table.Rows {
		sum := of(row, "even")
		for _, c := range causes {
			sum += of(row, c.name)
			if cores := of(row, "cores"); (of(row, c.name) == 0) != (cores == 1) {
				t.Errorf("%v cores: %s of %v s", cores, c.name, of(row, c.name))
			}
		}
		if step := of(row, "step"); math.Abs(sum/step-1) > 1e-9 {
			t.Errorf("row %d: even share and causes are %v s, the step %v", i, sum, step)
		}
		if paper := row[table.Column("paper")]; (paper.Text != lab.Absent.Text) != (i == 2) {
			t.Errorf("row %d: paper %v", i, paper)
		}
	}
}

func TestSpec(t *testing.T) {
	labtest.CheckRefused(t, Definition, [][3]string{
		{"cores: [1, 2,", "cores: [2, 1,", "in ascending order"},
		{"examples: [4, 8, 1]", "examples: []", "at least one"},
		{"batches: 1}", "batches: 9}", "want at most 3"},
		{"accelerator: tpuv3", "accelerator: abacus", "unknown accelerator"},
	})
	s := labtest.Loaded[*spatial](t, Definition.Load)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		s.Spec.Accelerator = file
		return s
	})
}
