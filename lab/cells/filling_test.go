package cells_test

import (
	"errors"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// Modelled steps: a larger mini-batch pays where it fits, and none fits a
// network that is too large.
func TestFilling(t *testing.T) {
	m := cells.Filling{Accelerator: "tpuv2", DType: "bf16", Optimizer: "rmsprop", Batch: 32, Most: 100}
	log, measured := records.New(records.Key{}), accelerator.Variation{}
	s := train.Setup{Partitions: 2, MicroBatches: 4}
	for name, model := range map[string]train.Model{
		"small": {Name: "resnet50", Width: 8, Image: 64, Classes: 10}, "large": {Name: "amoebanetd", Layers: 36, Filters: 1024, Classes: 10},
	} {
		for range 2 { // once is enough
			testkit.NoError(t, lab.MakeMissing(t.Context(), "modelled", log, progress.Silent{}, []lab.Job{m.Job(name, s, measured, m.Modellers([]accelerator.Variation{measured})(model, s), 0)}))
		}
	}
	var small, large cells.FillingStep
	testkit.NoError(t, errors.Join(log.Get(m.Sample("small", measured), &small), log.Get(m.Sample("large", measured), &large)))
	if small.Batch != 32 || small.Filled != 96 || !(small.FilledSeconds > small.Seconds && small.FilledSeconds < 3*small.Seconds) {
		t.Errorf("a small network: %+v; want 96 examples in less than three times as long as 32", small)
	}
	if large.Filled != 0 || !(large.Seconds > 0) {
		t.Errorf("a network that is too large: %+v", large)
	}
	testkit.Equal(t, testkit.Must(m.Relative(log, "small", "large", measured))(t)[1].Text, "-", "cells")
	testkit.Refused(m.Relative(log, "small", "none", measured))(t)
}
