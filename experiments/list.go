// Package experiments lists the experiments, and reproduces them.
package experiments

import (
	"strings"

	"gpipebench/experiments/gpipe/ablation"
	"gpipebench/experiments/gpipe/accuracy"
	"gpipebench/experiments/gpipe/breakdown"
	"gpipebench/experiments/gpipe/consistency"
	"gpipebench/experiments/gpipe/delayed"
	"gpipebench/experiments/gpipe/figure3"
	"gpipebench/experiments/gpipe/learning"
	"gpipebench/experiments/gpipe/scale"
	"gpipebench/experiments/gpipe/stability"
	"gpipebench/experiments/gpipe/table1"
	"gpipebench/experiments/gpipe/table2"
	"gpipebench/experiments/gpipe/table2/amoebanet"
	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/gpipe/table3"
	"gpipebench/experiments/gpipe/translation"
	"gpipebench/experiments/gpipe/validation"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/usage"
)

// experiments in the order in which they run. Each entry loads its spec.
var experiments = []struct {
	id   string
	load func(...suite.SpecFile) (suite.Experiment, error)
}{
	{"consistency", consistency.Load},
	{"consistency-accuracy", accuracy.Load},
	{"table1", table1.Load},
	{"table2", table2.Load},
	{"table2-amoebanet", amoebanet.Load},
	{"table2-modelled", modelled.Load},
	{"table3", table3.Load},
	{"ablation", ablation.Load},
	{"figure3", figure3.Load},
	{"breakdown", breakdown.Load},
	{"validation", validation.Load},
	{"learning", learning.Load},
	{"translation", translation.Load},
	{"translation-scale", scale.Load},
	{"stability", stability.Load},
	{"delayed-reduction", delayed.Load},
}

// IDs lists the experiments.
func IDs() []string {
	var ids []string
	for _, e := range experiments {
		ids = append(ids, e.id)
	}
	return ids
}

// Load finds an experiment and reads its spec, the one that is part of the
// program unless a file is given.
func Load(id string, from ...suite.SpecFile) (suite.Experiment, error) {
	for _, e := range experiments {
		if e.id == id {
			loaded, err := e.load(from...)
			if err == nil && len(from) > 0 {
				err = suite.CheckRuns(loaded, from[0])
			}
			return loaded, err
		}
	}
	return nil, usage.Errorf("unknown experiment %q: want %s", id, strings.Join(IDs(), ", "))
}
