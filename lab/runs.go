package lab

import (
	"fmt"
	"strconv"

	"gpipebench/internal/yamldoc"
	"gpipebench/train"
)

// planner is an experiment that lists what it will run, so that a spec with a run that
// is impossible is refused when it is loaded, not after the first measurement.
type planner interface {
	// Planned lists what a profile runs, with the place in the spec that it is from.
	Planned(profile string) []PlannedRun
}

// PlannedRun is something that an experiment runs.
type PlannedRun struct {
	Path []string // in the spec
	Run  checked
}

// checked is a run that can be found impossible without being run. Known has the
// number of layers of each model that was found possible.
type checked interface {
	Check(known map[train.Model]int) error
}

// CheckRuns refuses a spec given by --spec that has an impossible run. A test checks
// the program's own specs: it takes some time. Known has the number of layers of each
// model that was found possible; those that this finds are added.
func CheckRuns(e Experiment, from SpecFile, known map[train.Model]int) error {
	p, ok := e.(planner)
	if !ok {
		return nil
	}
	for _, profile := range Profiles {
		for _, r := range p.Planned(profile) {
			err := r.Run.Check(known)
			if err == nil {
				continue
			}
			root, e := yamldoc.Parse(from.Name, from.Text)
			if e != nil {
				return e
			}
			return At(err, r.Path...).Located(from.Name, root)
		}
	}
	return nil
}

// ModelledRun is a network on modelled devices, in a largest number of partitions.
type ModelledRun struct {
	Model train.Model
	Most  int // partitions
}

func (m ModelledRun) Check(known map[train.Model]int) error {
	if _, ok := known[m.Model]; !ok {
		costs, err := train.FlopsOf(m.Model)
		if err != nil {
			return err
		}
		known[m.Model] = len(costs)
	}
	if n := known[m.Model]; m.Most > n {
		return fmt.Errorf("%d partitions of %d layers: want at most one partition a layer", m.Most, n)
	}
	return nil
}

// PlannedNetworks are the models of a spec's networks, each as it says.
func PlannedNetworks[N any](networks []N, of func(N) ModelledRun) (list []PlannedRun) {
	for i, n := range networks {
		list = append(list, PlannedRun{Path: []string{"networks", strconv.Itoa(i), "model"}, Run: of(n)})
	}
	return list
}
