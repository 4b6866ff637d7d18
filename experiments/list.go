// Package experiments lists the papers, and reproduces their experiments.
package experiments

import (
	"slices"
	"strings"

	"gpipebench/experiments/beyond"
	"gpipebench/experiments/bubbles"
	"gpipebench/experiments/densify"
	"gpipebench/experiments/gpipe"
	"gpipebench/experiments/mlperf"
	"gpipebench/experiments/published"
	"gpipebench/internal/failure"
	"gpipebench/lab"
	"gpipebench/train"
)

// Papers are in the order of the report. The first is the one that is reproduced if no
// other is asked for.
var Papers = []lab.Paper{
	gpipe.Paper,
	densify.Paper,
	bubbles.Paper,
	mlperf.Paper,
	published.Paper,
	beyond.Paper,
}

// AllPapers stands for the names of all of them.
const AllPapers = lab.AllPapers

// PaperNames lists the names of Papers, and AllPapers.
func PaperNames() (names []string) {
	for _, p := range Papers {
		names = append(names, p.Name)
	}
	return append(names, AllPapers)
}

// List returns the experiments of all papers.
func List() (list []lab.Definition) {
	for _, p := range Papers {
		list = append(list, p.Experiments...)
	}
	return list
}

// IDs returns those of List.
func IDs() []string { return idsOf(List()) }

// definition is the entry of an ID.
func definition(id string) (lab.Definition, error) {
	for _, d := range List() {
		if d.ID == id {
			return d, nil
		}
	}
	return lab.Definition{}, failure.Usagef("unknown experiment %q: want %s", id, strings.Join(IDs(), ", "))
}

// IDsOf returns those of a paper's experiments, or of all papers'.
func IDsOf(paper string) ([]string, error) {
	if paper == AllPapers {
		return IDs(), nil
	}
	for _, p := range Papers {
		if p.Name == paper {
			return idsOf(p.Experiments), nil
		}
	}
	return nil, failure.Usagef("unknown paper %q: want %s", paper, strings.Join(PaperNames(), ", "))
}

func idsOf(list []lab.Definition) (ids []string) {
	for _, d := range list {
		ids = append(ids, d.ID)
	}
	return ids
}

// Commands divides a list of experiments by the commands that run them. The first of
// each gives the command its name.
func Commands(list []lab.Definition) (commands [][]lab.Definition) {
	for _, d := range list {
		of := slices.IndexFunc(commands, func(c []lab.Definition) bool { return c[0].ID == d.Command })
		if of < 0 {
			commands = append(commands, []lab.Definition{d})
		} else {
			commands[of] = append(commands[of], d)
		}
	}
	return commands
}

// Load finds an experiment and reads its spec: the program's unless a file is given.
func Load(id string, from ...lab.SpecFile) (lab.Experiment, error) {
	return load(id, map[train.Model]int{}, from...)
}

// load is Load with what is known of models' layers.
func load(id string, known map[train.Model]int, from ...lab.SpecFile) (lab.Experiment, error) {
	d, err := definition(id)
	if err != nil {
		return nil, err
	}
	loaded, err := d.Load(from...)
	if err == nil && len(from) > 0 {
		err = lab.CheckRuns(loaded, from[0], known)
	}
	return loaded, err
}
