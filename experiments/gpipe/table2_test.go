package gpipe

import (
	"context"
	"fmt"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// What the paper's sources leave to derive.
func TestTable2Theory(t *testing.T) {
	e := labtest.Loaded[*table2](t, Paper.Experiment("table2").Load)
	if v, err := timed.Theory(e.setup(e.Spec.Base), e.setup(lab.Cell{K: 4, M: 1})); err != nil || fmt.Sprintf("%.3f", v[0].Numbers[0]) != "1.077" {
		t.Errorf("K = 4, M = 1 gains %v, %v; want 1.077", v, err)
	}
}

// Measuring a whole grid leaves what a report needs.
func TestTable2Measures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	e := labtest.Loaded[*table2](t, Paper.Experiment("table2").Load)
	log := records.New(e.Key("smoke"))
	testkit.NoError(t, e.Measure(context.Background(), log, progress.Silent{}))
	r := testkit.Must(e.Report(log, nil))(t)
	if len(r.Tables[0].Rows) != 9 || len(r.Files) != 4 { // plot, timeline three times
		t.Errorf("%d rows, %d files", len(r.Tables[0].Rows), len(r.Files))
	}
	n := len(log.Names)
	if err := e.Measure(context.Background(), log, progress.Silent{}); err != nil || len(log.Names) != n {
		t.Errorf("measured again: %d samples more, %v", len(log.Names)-n, err)
	}
}
