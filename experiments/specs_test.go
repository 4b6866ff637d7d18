package experiments

import (
	"testing"

	"gpipebench/experiments/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
)

func TestPaperScaleSpecErrors(t *testing.T) {
	for _, c := range []struct {
		of                     lab.Definition
		old, replacement, want string
	}{
		{gpipe.Paper.Experiment("table2-modelled"), "partitioner: lingvo", "partitioner: luck", "min-max"},
		{gpipe.Paper.Experiment("table2-modelled"), "cost: time", "cost: luck", "want flops, time, memory"},
		{gpipe.Paper.Experiment("table2-modelled"), "recompute: [early, late]", "recompute: [early, never]", `unknown "never": want early, late`},
		{gpipe.Paper.Experiment("table2-modelled"), "recompute: [early, late]", "recompute: []", "an empty list: want at least one entry"},
		{gpipe.Paper.Experiment("table2-modelled"), "accelerator: tpuv2", "accelerator: abacus", "unknown accelerator"},
		{gpipe.Paper.Experiment("table2-modelled"), "dtype: bf16", "dtype: bf8", "want bf16 or f32"},
		{gpipe.Paper.Experiment("table2-modelled"), "optimizer: rmsprop", "optimizer: luck", "momentum"},
		{gpipe.Paper.Experiment("table2-modelled"), "splits: [coarse]", "splits: [fine]", "want coarse first"},
		{gpipe.Paper.Experiment("table2-modelled"), "batch: 128", "batch: 120", "not of one size"},
		{gpipe.Paper.Experiment("table2-modelled"), "most: 4096", "most: 31", "not of one size"},
		{gpipe.Paper.Experiment("table2-modelled"), "base: {k: 2, m: 1}", "base: {k: 4, m: 1}", "value in the paper is 1"},
		{gpipe.Paper.Experiment("sensitivity"), "  - element-wise operations not fused", "  - twice the luck", `unknown "twice the luck": want activations not`},
		{gpipe.Paper.Experiment("table3"), "rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
		{gpipe.Paper.Experiment("table3"), "    batch: 32\n    rounds", "    batch: 33\n    rounds", "not of one size"},
		{gpipe.Paper.Experiment("table3"), "partitioner: min-variance\n", "partitioner: luck\n", "min-max"},
		{gpipe.Paper.Experiment("table3"), "      - {name: amoebanetd, layers: 18, filters: 16, image: 64, classes: 10}\n", "", "1: want one for each of 2 networks"},
		{gpipe.Paper.Experiment("ablation"), "[min-variance, min-max, lingvo, block]", "[luck]", "min-max"},
		{gpipe.Paper.Experiment("ablation"), "[flops, time, memory]", "[time, memory]", "one of the partitioners"},
		{gpipe.Paper.Experiment("ablation"), "micro: 4", "micro: 0", "want a whole number from 1 to"},
		{gpipe.Paper.Experiment("ablation"), "optimizer: rmsprop", "optimizer: luck", "momentum"},
	} {
		testkit.FailsFirst(t, labtest.Refused(t, c.of, c.old, c.replacement), "x.yaml:", c.want)
	}
}
