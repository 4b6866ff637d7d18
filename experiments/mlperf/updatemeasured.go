package mlperf

import (
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// updateMeasuredSpec is the spec of update-measured.
type updateMeasuredSpec struct {
	timed.Spec[updateMeasuredProfile] `yaml:",inline"`
	Replicas                          []int                   `yaml:"replicas" want:"1..64,first=1,ascending"`
	Networks                          []updateMeasuredNetwork `yaml:"networks"`
}

// updateMeasuredNetwork is one of the paper's, on one core of many.
type updateMeasuredNetwork struct {
	ID        string       `yaml:"id" want:"id,key"`
	Name      string       `yaml:"name" want:"name"`
	Optimizer string       `yaml:"optimizer" want:"optimizer"`
	Of        train.Model  `yaml:"of"` // of which a small one has the proportion of parameters to operations; a test compares them
	Examples  int          `yaml:"examples" want:"1..65536"`
	Paper     lab.Verbatim `yaml:"paper"` // percent of a step
}

type updateMeasuredProfile struct {
	timed.Profile `yaml:",inline"`
	Networks      []smallNetwork `yaml:"networks"` // one for each of the spec's
	Steps         int            `yaml:"steps" want:"1..1000"`
}

// smallNetwork is a network of the same proportion.
type smallNetwork struct {
	Model    train.Model `yaml:"model"`
	Examples int         `yaml:"examples" want:"1..65536"` // of a replica
}

type updateMeasured = timed.Timed[updateMeasuredSpec, updateMeasuredProfile]

func newUpdateMeasured() (lab.Experiment, error) {
	x := &updateMeasured{}
	x.Check, x.Runs, x.Show = x.Spec.check, x.Spec.runs, x.Spec.show
	return x, nil
}

func (x *updateMeasuredSpec) check() *lab.Problem {
	return lab.CheckEach(x.Profiles, "networks", func(p updateMeasuredProfile) int { return len(p.Networks) }, len(x.Networks), "networks")
}

// updateCell is a row of the table: a network on a number of replicas.
type updateCell struct {
	network int
	r       int
	divided bool
}

func (x *updateMeasuredSpec) name(c updateCell) string {
	return fmt.Sprintf("%s/R=%d/update=%s", x.Networks[c.network].ID, c.r, lab.DividedOrWhole(c.divided))
}

// cells are the table's, in its order. One replica has nothing to divide.
func (x *updateMeasuredSpec) cells() (all []updateCell) {
	for i := range x.Networks {
		for _, r := range x.Replicas {
			all = append(all, updateCell{i, r, false})
			if r > 1 {
				all = append(all, updateCell{i, r, true})
			}
		}
	}
	return all
}

func (x *updateMeasuredSpec) runs(p updateMeasuredProfile) (runs []timed.Run) {
	for _, c := range x.cells() {
		of := p.Networks[c.network]
		runs = append(runs, timed.Run{Name: x.name(c), Steps: p.Steps, Training: train.Training{
			Model: of.Model, Batch: c.r * of.Examples, Optimizer: x.Networks[c.network].Optimizer,
			Setup: train.Setup{
				Partitions: 1, MicroBatches: 1, Replicas: c.r, Groups: c.r, ShardUpdate: c.divided,
				Checkpoint: schedule.Never, Device: gpipe.Emulated, Threads: 1,
			},
		}})
	}
	return runs
}

// replicaMemory is what the replica with most has, of a plan.
type replicaMemory struct {
	state int64 // the optimiser's
	peak  int64
}

func plannedMemory(t train.Training) (m replicaMemory, err error) {
	plans, err := t.Plans()
	for _, p := range plans {
		m.state, m.peak = max(m.state, p.Bytes[gpipe.OptimizerState]), max(m.peak, p.Peak)
	}
	return m, err
}

func (x *updateMeasuredSpec) show(r *timed.Reporting[updateMeasuredProfile]) (shown.Rows, error) {
	update := func(p clock.Parts) float64 { return p.Update }
	var rows []shown.Values
	for i, c := range x.cells() {
		memory, err := plannedMemory(r.Rounds.Runs[i].Training)
		if err != nil {
			return nil, err
		}
		own, one, whole := r.Runs[x.name(c)], r.Runs[x.name(updateCell{c.network, 1, false})], r.Runs[x.name(updateCell{c.network, c.r, false})]
		row := shown.Values{
			"network": x.Networks[c.network].Name, "update": lab.DividedOrWhole(c.divided), "divided": c.divided, "R": c.r, "batch": c.r * r.Profile.Networks[c.network].Examples,
			"step": own.Rounds, "share": own.Shares(update), "whole": whole.Rounds, "state": memory.state, "peak": memory.peak, "paper": lab.Absent,
			"whole_rest": whole.Parts.Step - whole.Parts.Update, "one_update": one.Parts.Update,
			"exact": own.Exact() && slices.Max(own.Peak) == memory.peak, "before": math.NaN(),
		}
		if !c.divided && c.r == slices.Max(x.Replicas) {
			row["paper"] = x.Networks[c.network].Paper.Printed("%")
		}
		if before := r.Refs[x.name(c)]; before != nil {
			row["before"] = before.Parts.Update / before.Parts.Step
		}
		rows = append(rows, row)
	}
	return shown.Rows{"": rows}, nil
}
