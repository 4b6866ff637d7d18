package mlperf

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// A round has all samples, those of the calibration with a time for each instruction.
func TestHoistingMeasures(t *testing.T) {
	h := labtest.Loaded[*hoisting](t, Paper.Experiment("hoisting").Load)
	log := records.New(h.Key("smoke"))
	labtest.MeasureTwice(t, h, log)
	p := h.Spec.Profiles["smoke"]
	testkit.Equal(t, len(log.Names), len(h.Runs(p)), "samples")
	testkit.Must(h.Report(log, nil))(t)
	// A sample of another program is strange.
	l := p.calibrated()[0]
	other := records.New(h.Key("smoke"))
	for _, name := range log.Names {
		var s layerTimes
		testkit.NoError(t, log.Get(name, &s))
		if name == h.Sample(l, 0) {
			s.Instrs = s.Instrs[1:]
		}
		testkit.NoError(t, other.Add(name, 1, s))
	}
	testkit.Refused(h.Report(other, nil))(t, "instructions")
}

func TestHoistingSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("hoisting"), [][3]string{
		{"batches: [1, 2, 4, 8, 16, 32]", "batches: [2, 1]", "ascending"},
		{"calibrated: [{width: 32,", "calibrated: [{width: 48,", "want another width"},
		{"accelerator: tpuv3", "accelerator: abacus", "unknown accelerator"},
		{"turns: 1", "turns: 0", "want a whole number from 1"},
	})
	h := labtest.Loaded[*hoisting](t, Paper.Experiment("hoisting").Load)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		h.Spec.Accelerator = file
		return h
	})
}
