package mlperf

import (
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed/timedtest"
)

// The report is the arithmetic of given rates: a host that makes what 512 cores took.
func TestInputReport(t *testing.T) {
	x := labtest.Loaded[*inputThroughput](t, Paper.Experiment("input-throughput").Load)
	at := x.taken(x.Spec.Logged[3])
	r := timedtest.Reported(t, x, timedtest.Filled(t, x, "quick", func(struct{}, int) *madePairs {
		return &madePairs{Kept: at, Texts: at / 4, OfText: 1}
	}))
	table := r.Tables[0]
	for i, l := range x.Spec.Logged {
		row := table.Rows[i]
		of := func(column string) lab.Value { return row[table.Column(column)] }
		ratio := l.Seconds.Value / x.Spec.Logged[3].Seconds.Value
		labtest.CheckCells(t, table, row, map[string]float64{
			"taken": 3442.299 / l.Seconds.Value, "measured made / taken": ratio, "texts / taken": ratio / 4, "cores for one": ratio * float64(l.Cores), "made / taken, reference": ratio,
		})
		if printed := len(of("paper, too many for one").Numbers) > 0; printed != (l.Cores == 1024) {
			t.Errorf("%d cores: the paper's figure %v", l.Cores, of("paper, too many for one"))
		}
	}
}

func TestInputMeasures(t *testing.T) {
	x := labtest.Loaded[*inputThroughput](t, Paper.Experiment("input-throughput").Load)
	log := records.New(x.Key("smoke"))
	labtest.MeasureTwice(t, x, log)
	var s madePairs
	if err := log.Get(x.Sample(struct{}{}, 0), &s); err != nil || s.OfText != x.Spec.Batch || len(log.Names) != 1 {
		t.Errorf("%+v, %d samples, %v", s, len(log.Names), err)
	}
	if _, err := x.Report(log, nil); err != nil {
		t.Error(err)
	}
}

func TestInputSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("input-throughput"), [][3]string{
		{"cores: 128,", "cores: 16,", "want more cores"},
		{"pairs: 16384, passes", "pairs: 163, passes", "want 8192 or more"},
		{"window: 4", "window: 100000", "65536"},
		{"window: 4", "window: 0", "want a whole number from 1"},
	})
}
