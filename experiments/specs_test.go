package experiments

import (
	"strings"
	"testing"

	"gpipebench/experiments/gpipe/ablation"
	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/gpipe/table3"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/suite/suitetest"
)

func TestPaperScaleSpecErrors(t *testing.T) {
	for _, c := range []struct{ file, old, replacement, want string }{
		{"table2_modelled.yaml", "partitioner: lingvo", "partitioner: luck", "min-max"},
		{"table2_modelled.yaml", "cost: time", "cost: luck", "want flops, time, memory"},
		{"table2_modelled.yaml", "recompute: [early, late]", "recompute: [early, never]", `unknown "never": want early, late`},
		{"table2_modelled.yaml", "recompute: [early, late]", "recompute: []", "an empty list: want at least one entry"},
		{"table2_modelled.yaml", "recompute: [early, late]", "recompute: [late, early]", "those of table3.yaml"},
		{"table2_modelled.yaml", "accelerator: tpuv2", "accelerator: abacus", "unknown accelerator"},
		{"table2_modelled.yaml", "dtype: bf16", "dtype: bf8", "want bf16 or f32"},
		{"table2_modelled.yaml", "optimizer: rmsprop", "optimizer: luck", "momentum"},
		{"table2_modelled.yaml", "splits: [coarse]", "splits: [fine]", "want coarse first"},
		{"table2_modelled.yaml", "batch: 128", "batch: 120", "not of one size"},
		{"table2_modelled.yaml", "most: 4096", "most: 31", "not of one size"},
		{"table2_modelled.yaml", "base: {k: 2, m: 1}", "base: {k: 4, m: 1}", "value in the paper is 1"},
		{"table2_modelled.yaml", "      - {k: 4, m: 4, value: 1.26, torchgpipe: 1.666}\n", "", "no value for K = 4, M = 4"},
		{"table2_modelled.yaml", "  - half the arithmetic rate", "  - twice the luck", `unknown "twice the luck": want activations not`},
		{"table3.yaml", "rounds: 2", "rounds: 0", "want a whole number from 1 to 1000"},
		{"table3.yaml", "    batch: 32\n    rounds", "    batch: 33\n    rounds", "not of one size"},
		{"table3.yaml", "partitioner: min-variance\n", "partitioner: luck\n", "min-max"},
		{"table3.yaml", "      - {name: amoebanetd, layers: 18, filters: 16, image: 64, classes: 10}\n", "", "1 models for 2 networks"},
		{"ablation.yaml", "[min-variance, min-max, lingvo, block]", "[luck]", "min-max"},
		{"ablation.yaml", "[flops, time, memory]", "[time, memory]", "one of the partitioners"},
		{"ablation.yaml", "micro: 4", "micro: 0", "want a whole number from 1 to"},
		{"ablation.yaml", "optimizer: rmsprop", "optimizer: luck", "momentum"},
	} {
		var err error
		text := suitetest.Edited(t, c.file, c.old, c.replacement)
		switch c.file {
		case "table2_modelled.yaml":
			var loaded suite.Experiment
			if loaded, err = Load("table2-modelled"); err != nil {
				t.Fatal(err)
			}
			e := &modelled.Table2Modelled{Table3: loaded.(*modelled.Table2Modelled).Table3}
			err = suite.Decode(c.file, text, &e.Spec, e.Check)
		case "table3.yaml":
			e := &table3.Table3{}
			err = suite.Decode(c.file, text, &e.Spec, e.Check)
		default:
			e := &ablation.Ablation{}
			err = suite.Decode(c.file, text, &e.Spec, e.Check)
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.file+":") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.replacement, err, c.want)
		}
	}
}
