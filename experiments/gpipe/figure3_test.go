package gpipe

import (
	"errors"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// Modelled steps: a larger mini-batch pays where it fits, and none fits a
// network that is too large.
func TestFigure3Modelled(t *testing.T) {
	m := figure3Modelled{Accelerator: "tpuv2", DType: "bf16", Optimizer: "rmsprop", Batch: 32, Most: 100}
	log := records.New(records.Key{})
	s := train.Setup{Partitions: 2, MicroBatches: 4}
	for name, model := range map[string]train.Model{
		"small": {Name: "resnet50", Width: 8, Image: 64, Classes: 10}, "large": {Name: "amoebanetd", Layers: 36, Filters: 1024, Classes: 10},
	} {
		for range 2 { // once is enough
			testkit.NoError(t, lab.MakeMissing(t.Context(), "modelled", log, progress.Silent{}, []lab.Job{m.job(name, model, s, measuredRates, m.modellers([]accelerator.Variation{measuredRates}))}))
		}
	}
	var small, large figure3Step
	testkit.NoError(t, errors.Join(log.Get(m.name("small", measuredRates), &small), log.Get(m.name("large", measuredRates), &large)))
	if small.Batch != 32 || small.Filled != 96 || !(small.FilledSeconds > small.Seconds && small.FilledSeconds < 3*small.Seconds) {
		t.Errorf("a small network: %+v; want 96 examples in less than three times as long as 32", small)
	}
	if large.Filled != 0 || !(large.Seconds > 0) {
		t.Errorf("a network that is too large: %+v", large)
	}
	testkit.Equal(t, testkit.Must(m.relative(log, "small", "large", measuredRates))(t)[1].Text, "-", "cells")
	testkit.Refused(m.relative(log, "small", "none", measuredRates))(t)
}

func TestFigure3SpecErrors(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("figure3"), [][3]string{
		{"base: naive-2", "base: Pipeline-2", "value in the paper is 1"},
		{"    batch: 32", "    batch: 33", "not of one size"},
		{"      - {name: resnet101, width: 8, image: 64, classes: 10}\n", "", "1 models for 2 networks"},
		{"most: 4096", "most: 31", "at most 31 examples: want 32 or more"},
	})
}
