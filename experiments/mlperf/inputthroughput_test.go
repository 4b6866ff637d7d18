package mlperf

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

func TestInputMeasures(t *testing.T) {
	x := labtest.Loaded[*inputThroughput](t, Paper.Experiment("input-throughput").Load)
	log := records.New(x.Key("smoke"))
	labtest.MeasureTwice(t, x, log)
	var s madePairs
	testkit.NoError(t, log.Get(x.Sample(struct{}{}, 0), &s))
	testkit.Equal(t, s.OfText, x.Spec.Batch, "pairs of text")
	testkit.Equal(t, len(log.Names), 1, "samples")
	testkit.Must(x.Report(log, nil))(t)
}

func TestInputSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("input-throughput"), [][3]string{
		{"cores: 128,", "cores: 16,", "want more cores"},
		{"pairs: 16384, passes", "pairs: 163, passes", "want 8192 or more"},
	})
}
