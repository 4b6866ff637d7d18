package mlperf

import (
	"testing"

	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

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
	})
}
