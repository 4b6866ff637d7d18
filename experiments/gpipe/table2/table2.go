// Package table2 measures the Transformer's throughput by K and M (Table 2).
package table2

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "table2", Folder: folder, New: load}

func (t *Table2) Planned(profile string) []suite.PlannedRun {
	return append(t.rounds(t.Spec.Profiles[profile], 2).Planned(profile),
		suite.PlannedRun{Path: []string{"paper_model"}, Run: suite.ModelledRun{Model: t.Spec.PaperModel, Most: slices.Max(t.Spec.K)}})
}

// table2Spec is spec.yaml.
type table2Spec struct {
	suite.Head  `yaml:",inline"`
	suite.Grid  `yaml:",inline"`
	Batch       int              `yaml:"batch"`
	Schedule    string           `yaml:"schedule" want:"schedule"`
	Checkpoint  string           `yaml:"checkpoint" want:"checkpoint"`
	Late        bool             `yaml:"late_recompute"`
	Partitioner string           `yaml:"partitioner" want:"partitioner"`
	Cost        string           `yaml:"cost" want:"cost"`
	Optimizer   string           `yaml:"optimizer" want:"optimizer"`
	LR          float64          `yaml:"lr" want:">0.."`
	HostM       int              `yaml:"host_m" want:"1..65536"`
	Paper       suite.PaperCells `yaml:"paper"`
	PaperModel  workload.Model   `yaml:"paper_model"`

	Profiles map[string]table2Profile `yaml:"profiles"`
}

type table2Profile struct {
	Expected suite.Span     `yaml:"expected"`
	Model    workload.Model `yaml:"model"`
	Rounds   int            `yaml:"rounds" want:"1..1000"`
	Steps    map[int]int    `yaml:"steps" want:"1..1000"`   // in a round, by M
	WarmUp   int            `yaml:"warm_up" want:"0..1000"` // steps that are discarded when a round begins
}

// Table2 times training steps over a grid of K and M on emulated devices, and
// K = 1 and 2 on real ones.
type Table2 struct {
	suite.Base[table2Spec]

	// What the names in the spec stand for.
	schedule    schedule.Schedule
	checkpoint  schedule.Checkpoint
	partitioner partition.Partitioner
	cost        workload.Cost

	Modelled modelled.ModelledBeside
}

func load() (suite.Experiment, error) {
	t := &Table2{}
	var err error
	t.Modelled, err = modelled.Beside("transformer")
	t.Others = t.Modelled.Decides
	return t, err
}

func (t *Table2) Resolve() *suite.Problem {
	var err error
	if t.schedule, err = schedule.Parse(t.Spec.Schedule); err != nil {
		return suite.At(err, "schedule")
	}
	if t.checkpoint, err = schedule.ParseCheckpoint(t.Spec.Checkpoint); err != nil {
		return suite.At(err, "checkpoint")
	}
	if t.partitioner, err = partition.Parse(t.Spec.Partitioner); err != nil {
		return suite.At(err, "partitioner")
	}
	if t.cost, err = workload.ParseCost(t.Spec.Cost); err != nil {
		return suite.At(err, "cost")
	}
	for _, name := range suite.Profiles {
		p := t.Spec.Profiles[name]
		for _, m := range append(t.Spec.M, t.Spec.HostM) {
			if p.Steps[m] < 1 {
				return suite.At(fmt.Errorf("no steps for M = %d: want 1 or more", m), "profiles", name, "steps")
			}
		}
	}
	for _, m := range append(t.Spec.M, t.Spec.HostM) {
		if t.Spec.Batch%m != 0 {
			return suite.At(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, t.Spec.Batch), "batch")
		}
	}
	if !slices.Contains(t.Spec.Cells(), suite.Cell{K: 2, M: t.Spec.HostM}) {
		return suite.At(errors.New("want one of m, and 2 among k: real cores are held against emulated ones"), "host_m")
	}
	return t.Spec.CheckPaper(t.Spec.Paper)
}

// table2Run is one of the pipelines that take turns in a round.
type table2Run struct {
	suite.Cell
	device gpipe.Kind
}

func (r table2Run) name() string { return fmt.Sprintf("%v/K=%d/M=%d", r.device, r.K, r.M) }

// runs are the grid on emulated devices and, if there are two cores, one and
// two partitions on host devices.
func (t *Table2) runs(cores int) []table2Run {
	var rs []table2Run
	for _, c := range t.Spec.Cells() {
		rs = append(rs, table2Run{c, gpipe.Emulated})
	}
	if cores >= 2 {
		for _, k := range []int{1, 2} {
			rs = append(rs, table2Run{suite.Cell{K: k, M: t.Spec.HostM}, gpipe.Host})
		}
	}
	return rs
}

// rounds are those of a profile.
func (t *Table2) rounds(profile table2Profile, cores int) *rounds.Rounds {
	r := &rounds.Rounds{ID: t.ID(), Count: profile.Rounds, WarmUp: profile.WarmUp, Seed: t.Spec.Seed}
	for _, run := range t.runs(cores) {
		r.Runs = append(r.Runs, rounds.Run{
			Name:  run.name(),
			Bench: fmt.Sprintf("device=%v/K=%d/M=%d", run.device, run.K, run.M),
			Training: workload.Training{
				Model: profile.Model, Batch: t.Spec.Batch,
				Optimizer: t.Spec.Optimizer, LR: t.Spec.LR, LRSchedule: "constant",
				Setup: t.setup(run),
			},
			Steps: profile.Steps[run.M],
		})
	}
	return r
}

func (t *Table2) Repeated(profile string) (rounds.Repeated, error) {
	p, err := suite.ProfileOf(t.Spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return t.rounds(p, workload.HostCores()), nil
}

func (t *Table2) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	r, err := t.Repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	if err := t.Modelled.Measure(ctx, log, p); err != nil {
		return err
	}
	return rounds.InThisProcess(ctx, r, log, p)
}

func (t *Table2) setup(run table2Run) workload.Setup {
	return workload.Setup{
		Partitions: run.K, MicroBatches: run.M, Schedule: t.schedule, Checkpoint: t.checkpoint, LateRecompute: t.Spec.Late,
		Partitioner: t.partitioner, Cost: t.cost, Device: run.device, Threads: 1,
	}
}
