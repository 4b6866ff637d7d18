// Package experiments lists the experiments, and reproduces them.
package experiments

import (
	"slices"
	"strings"

	"gpipebench/experiments/gpipe/ablation"
	"gpipebench/experiments/gpipe/breakdown"
	"gpipebench/experiments/gpipe/consistency"
	"gpipebench/experiments/gpipe/consistency/accuracy"
	"gpipebench/experiments/gpipe/delayed"
	"gpipebench/experiments/gpipe/efficiency"
	"gpipebench/experiments/gpipe/figure3"
	"gpipebench/experiments/gpipe/learning"
	"gpipebench/experiments/gpipe/scale"
	"gpipebench/experiments/gpipe/sensitivity"
	"gpipebench/experiments/gpipe/stability"
	"gpipebench/experiments/gpipe/table1"
	"gpipebench/experiments/gpipe/table2"
	"gpipebench/experiments/gpipe/table2/amoebanet"
	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/gpipe/table3"
	"gpipebench/experiments/gpipe/translation"
	"gpipebench/experiments/gpipe/validation"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/internal/usage"
)

// Paper is a group of experiments.
type Paper struct {
	Name        string
	Experiments []suite.Definition
}

// Papers list the experiments in the order in which they run and the report has
// them.
var Papers = []Paper{
	{"gpipe", []suite.Definition{
		table1.Definition,
		table2.Definition,
		amoebanet.Definition,
		modelled.Definition,
		figure3.Definition,
		breakdown.Definition,
		table3.Definition,
		consistency.Definition,
		accuracy.Definition,
		delayed.Definition,
		stability.Definition,
		learning.Definition,
		translation.Definition,
		scale.Definition,
		ablation.Definition,
		validation.Definition,
		efficiency.Definition,
		sensitivity.Definition,
	}},
}

// List returns the experiments of all papers.
func List() (list []suite.Definition) {
	for _, p := range Papers {
		list = append(list, p.Experiments...)
	}
	return list
}

// IDs returns those of List.
func IDs() (ids []string) {
	for _, d := range List() {
		ids = append(ids, d.ID)
	}
	return ids
}

// Commands lists the experiments that each command runs. The first gives the command
// its name.
func Commands() (commands [][]suite.Definition) {
	for _, d := range List() {
		of := slices.IndexFunc(commands, func(c []suite.Definition) bool { return c[0].ID == d.Command })
		if of < 0 {
			commands = append(commands, []suite.Definition{d})
		} else {
			commands[of] = append(commands[of], d)
		}
	}
	return commands
}

// Load finds an experiment and reads its spec: the program's unless a file is given.
func Load(id string, from ...suite.SpecFile) (suite.Experiment, error) {
	return load(id, map[workload.Model]int{}, from...)
}

// load is Load with what is known of models' layers.
func load(id string, known map[workload.Model]int, from ...suite.SpecFile) (suite.Experiment, error) {
	for _, d := range List() {
		if d.ID == id {
			loaded, err := d.Load(from...)
			if err == nil && len(from) > 0 {
				err = suite.CheckRuns(loaded, from[0], known)
			}
			return loaded, err
		}
	}
	return nil, usage.Errorf("unknown experiment %q: want %s", id, strings.Join(IDs(), ", "))
}
