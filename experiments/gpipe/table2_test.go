package gpipe

import (
	"fmt"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// What the paper's sources leave to derive.
func TestTable2Theory(t *testing.T) {
	e := labtest.Loaded[*table2](t, Paper.Experiment("table2").Load)
	v := testkit.Must(timed.Theory(e.setup(e.Spec.Base), e.setup(lab.Cell{K: 4, M: 1})))(t)
	testkit.Equal(t, fmt.Sprintf("%.3f", v[0].Numbers[0]), "1.077", "gain of K = 4, M = 1")
}

// Measuring a whole grid leaves what a report needs.
func TestTable2Measures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	e := labtest.Loaded[*table2](t, Paper.Experiment("table2").Load)
	log := records.New(e.Key("smoke"))
	labtest.MeasureTwice(t, e, log)
	r := testkit.Must(e.Report(log, nil))(t)
	if len(r.Tables[0].Rows) != 9 || len(r.Files) != 4 { // plot, timeline three times
		t.Errorf("%d rows, %d files", len(r.Tables[0].Rows), len(r.Files))
	}
}
