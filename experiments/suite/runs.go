package suite

import (
	"fmt"

	"gpipebench/experiments/workload"
	"gpipebench/internal/yamldoc"
)

// planner is an experiment that tells what it will run, so that what cannot run
// is refused when its spec is loaded and not behind the first measurement.
type planner interface {
	// planned lists what a profile runs, with the place in the spec that it is from.
	Planned(profile string) []PlannedRun
}

// PlannedRun is something that an experiment runs.
type PlannedRun struct {
	Path []string // in the spec
	Run  checked
}

// checked is what can be held to be possible without being run. Known are the
// numbers of layers of models that were found to be possible.
type checked interface {
	Check(known map[workload.Model]int) error
}

// CheckRuns refuses a spec of somebody's own by which something cannot run. The
// program's own specs are held to the same by a test: it takes some time. Known are
// models that were found to be possible, with their numbers of layers; those that this
// finds are added.
func CheckRuns(e Experiment, from SpecFile, known map[workload.Model]int) error {
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

// ModelledRun is a network in so many partitions, or less, on modelled devices.
type ModelledRun struct {
	Model workload.Model
	Most  int // partitions
}

func (m ModelledRun) Check(known map[workload.Model]int) error {
	if _, ok := known[m.Model]; !ok {
		costs, err := workload.FlopsOf(m.Model)
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
