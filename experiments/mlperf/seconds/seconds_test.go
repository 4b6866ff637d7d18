package seconds

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/suite/suitetest"
	"gpipebench/experiments/workload"
)

// A report of given steps is the arithmetic of these.
func TestReport(t *testing.T) {
	s := suitetest.Loaded[*seconds](t, Definition.Load)
	log := records.New(s.Key("quick"))
	if _, err := s.Report(log, nil); err == nil || !strings.Contains(err.Error(), "no sample") {
		t.Errorf("without records: %v", err)
	}
	if err := s.each("quick", func(n *network, r run) error {
		return log.Add(s.name(n, r), 0, sample{Seconds: 0.02, Reduce: 0.005, Fits: r.cores() != 32})
	}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	suitetest.CheckPlots(t, r)
	table := r.Tables[0]
	if n := len(table.Rows); n != 6+6+4 {
		t.Errorf("%d rows", n)
	}
	steps, images := 5.1*271, 72.8*1281167/32768
	for network, columns := range map[string]map[string]float64{
		"ResNet-50": {
			"examples a core": 16, "steps": images, "all-reduce": 25, "modelled s": 0.02 * images, "modelled / logged": 0.02 * images / 76.95, "logged s a step": 76.95 / images,
		},
		"Transformer": {"examples a core": 1, "steps": steps, "modelled s": 0.02 * steps, "logged s": 50.86},
	} {
		i := slices.IndexFunc(table.Rows, func(row []suite.Value) bool { return row[0].Text == network && row[1].Text == "2048" })
		for column, want := range columns {
			if got := table.Rows[i][table.Column(column)].Numbers[0]; math.Abs(got/want-1) > 1e-9 {
				t.Errorf("%s, %s: %v, want %v", network, column, got, want)
			}
		}
	}
	if len(table.Notes) != 1 || !strings.Contains(table.Notes[0], "do not fit") {
		t.Errorf("notes %q", table.Notes)
	}
	if n := len(r.Tables[1].Rows); n != 5 {
		t.Errorf("%d figures that differ in print", n)
	}
}

// The step of a run is simulated with its own batch, cores and scope.
func TestMeasure(t *testing.T) {
	s := suitetest.Loaded[*seconds](t, Definition.Load)
	n := &s.Spec.Networks[0]
	n.Model = workload.Model{Name: "resnet50", Width: 4, Image: 32, Classes: 10}
	n.Runs = n.Runs[4:]
	for i := range n.Runs {
		n.Runs[i].Torus.X, n.Runs[i].Torus.Y, n.Runs[i].Batch = 4, 2*(i+1), 64
	}
	s.Spec.Networks = s.Spec.Networks[:1]
	log := records.New(records.Key{Profile: "quick"})
	if err := s.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	var few, many sample
	if err := log.Get(s.name(n, n.Runs[0]), &few); err != nil {
		t.Fatal(err)
	}
	if err := log.Get(s.name(n, n.Runs[1]), &many); err != nil {
		t.Fatal(err)
	}
	// The second has half as many examples a core, and batch norm over 8 of them: meetings.
	if few.Seconds == many.Seconds || !few.Fits || few.Reduce >= many.Reduce {
		t.Errorf("8 cores %+v, 16 %+v", few, many)
	}
}

func TestSpec(t *testing.T) {
	suitetest.CheckRefused(t, Definition, [][3]string{
		{"{x: 64, y: 32}", "{x: 4, y: 4}", "more cores than the one before"},
		{"{x: 8, y: 4}", "{x: 1, y: 1}", "two cores or more"},
		{"bn_scope: 8", "bn_scope: 3", "batch norm over 3 of 2048 cores"},
		{"batch: 4096", "batch: 4095", "4095 examples on 32 cores"},
		{"epochs: 60.8", "epochs: 0", "above 0"},
		{"quick: {expected: 5s, most: 6}", "quick: {expected: 5s, most: 7}", "want at most 6"},
		{"images: 1281167", "images: 0", "either the network's images or the steps"},
		{"epochs: 3.2, epoch_steps: 1087", "epochs: 3.2", "either the network's images or the steps"},
	})
	s := suitetest.Loaded[*seconds](t, Definition.Load)
	suitetest.CheckKey(t, func(file string) suite.Experiment {
		s.Spec.Accelerator = file
		return s
	})
}
