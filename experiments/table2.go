package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

// table2Spec is table2.yaml.
type table2Spec struct {
	head        `yaml:",inline"`
	K           []int       `yaml:"k" want:"1..1024"`
	M           []int       `yaml:"m" want:"1..65536"`
	Base        cell        `yaml:"base"`
	Batch       int         `yaml:"batch"`
	Schedule    string      `yaml:"schedule" want:"schedule"`
	Checkpoint  string      `yaml:"checkpoint" want:"checkpoint"`
	Late        bool        `yaml:"late_recompute"`
	Partitioner string      `yaml:"partitioner" want:"partitioner"`
	Cost        string      `yaml:"cost" want:"cost"`
	Optimizer   string      `yaml:"optimizer" want:"optimizer"`
	LR          float64     `yaml:"lr" want:">0.."`
	HostM       int         `yaml:"host_m" want:"1..65536"`
	Paper       []paperCell `yaml:"paper"`
	PaperModel  Model       `yaml:"paper_model"`

	Profiles map[string]table2Profile `yaml:"profiles"`
}

// cell is one of the table's.
type cell struct {
	K int `yaml:"k" want:"1..1024,key"`
	M int `yaml:"m" want:"1..65536,key"`
}

type paperCell struct {
	cell  `yaml:",inline"`
	Value verbatim `yaml:"value"`
}

type table2Profile struct {
	Expected span        `yaml:"expected"`
	Model    Model       `yaml:"model"`
	Rounds   int         `yaml:"rounds" want:"1..1000"`
	Steps    map[int]int `yaml:"steps" want:"1..1000"`   // in a round, by M
	WarmUp   int         `yaml:"warm_up" want:"0..1000"` // steps that are discarded when a round begins
}

// table2 times training steps over a grid of K and M on emulated devices, and
// K = 1 and 2 on real ones.
type table2 struct {
	spec table2Spec
	text string

	// What the names in the spec stand for.
	schedule    schedule.Schedule
	checkpoint  schedule.Checkpoint
	partitioner partition.Partitioner
	cost        Cost

	modelled modelledBeside
}

func loadTable2(from ...SpecFile) (Experiment, error) {
	t := &table2{}
	var err error
	if t.modelled, err = loadModelledBeside("transformer"); err != nil {
		return nil, err
	}
	t.text, err = loadSpec("table2.yaml", from, &t.spec, t.check)
	return t, err
}

func (t *table2) check() *specProblem {
	var err error
	if t.schedule, err = schedule.Parse(t.spec.Schedule); err != nil {
		return at(err, "schedule")
	}
	if t.checkpoint, err = schedule.ParseCheckpoint(t.spec.Checkpoint); err != nil {
		return at(err, "checkpoint")
	}
	if t.partitioner, err = partition.Parse(t.spec.Partitioner); err != nil {
		return at(err, "partitioner")
	}
	if t.cost, err = ParseCost(t.spec.Cost); err != nil {
		return at(err, "cost")
	}
	if p := checkProfiles(t.spec.Profiles); p != nil {
		return p
	}
	for _, name := range Profiles {
		p := t.spec.Profiles[name]
		for _, m := range append(t.spec.M, t.spec.HostM) {
			if p.Steps[m] < 1 {
				return at(fmt.Errorf("no steps for M = %d: want 1 or more", m), "profiles", name, "steps")
			}
		}
	}
	for _, m := range append(t.spec.M, t.spec.HostM) {
		if t.spec.Batch%m != 0 {
			return at(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, t.spec.Batch), "batch")
		}
	}
	if !slices.Contains(t.cells(), cell{2, t.spec.HostM}) {
		return at(errors.New("want one of m, and 2 among k: real cores are held against emulated ones"), "host_m")
	}
	return checkGrid(t.cells(), t.spec.Base, func(c cell) float64 {
		v, _ := t.paper(c)
		return v.Value
	})
}

// checkGrid reports a cell of a table without a value in the paper, a base that
// is not one of the cells, and one whose value, to which the others are relative,
// is not 1.
func checkGrid(cells []cell, base cell, paper func(cell) float64) *specProblem {
	for _, c := range cells {
		if paper(c) == 0 {
			return at(fmt.Errorf("no value for K = %d, M = %d: want one for every cell of k and m", c.K, c.M), "paper")
		}
	}
	if !slices.Contains(cells, base) || paper(base) != 1 {
		return at(errors.New("want the cell of k and m whose value in the paper is 1"), "base")
	}
	return nil
}

func (t *table2) ID() string    { return t.spec.Experiment }
func (t *table2) Title() string { return t.spec.Title }

func (t *table2) Expected(profile string) time.Duration {
	return time.Duration(t.spec.Profiles[profile].Expected)
}

func (t *table2) Key(profile string) Key {
	return key(t.ID(), profile, t.text+t.modelled.key())
}

// cells of the grid, in the paper's order.
func (t *table2) cells() []cell {
	var cs []cell
	for _, m := range t.spec.M {
		for _, k := range t.spec.K {
			cs = append(cs, cell{k, m})
		}
	}
	return cs
}

// paper is the value that the paper prints for a cell.
func (t *table2) paper(c cell) (verbatim, bool) {
	for _, p := range t.spec.Paper {
		if p.cell == c {
			return p.Value, true
		}
	}
	return verbatim{}, false
}

// table2Run is one of the pipelines that take turns in a round.
type table2Run struct {
	cell
	device gpipe.Kind
}

func (r table2Run) name() string { return fmt.Sprintf("%v/K=%d/M=%d", r.device, r.K, r.M) }

// runs are the grid on emulated devices and, if there are two cores, one and
// two partitions on host devices.
func (t *table2) runs(cores int) []table2Run {
	var rs []table2Run
	for _, c := range t.cells() {
		rs = append(rs, table2Run{c, gpipe.Emulated})
	}
	if cores >= 2 {
		for _, k := range []int{1, 2} {
			rs = append(rs, table2Run{cell{k, t.spec.HostM}, gpipe.Host})
		}
	}
	return rs
}

// rounds are those of a profile.
func (t *table2) rounds(profile table2Profile, cores int) *rounds {
	r := &rounds{id: t.ID(), count: profile.Rounds, warmUp: profile.WarmUp, seed: t.spec.Seed}
	for _, run := range t.runs(cores) {
		r.runs = append(r.runs, timedRun{
			name:  run.name(),
			bench: fmt.Sprintf("device=%v/K=%d/M=%d", run.device, run.K, run.M),
			training: Training{
				Model: profile.Model, Batch: t.spec.Batch,
				Optimizer: t.spec.Optimizer, LR: t.spec.LR, LRSchedule: "constant",
				Setup: t.setup(run),
			},
			steps: profile.Steps[run.M],
		})
	}
	return r
}

func (t *table2) repeated(profile string) (repeated, error) {
	p, err := profileOf(t.spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return t.rounds(p, hostCores()), nil
}

func (t *table2) Measure(ctx context.Context, log *Log, p Progress) error {
	r, err := t.repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	if err := t.modelled.measure(ctx, log, p); err != nil {
		return err
	}
	return inThisProcess(ctx, r, log, p)
}

func (t *table2) setup(run table2Run) Setup {
	return Setup{
		Partitions: run.K, MicroBatches: run.M, Schedule: t.schedule, Checkpoint: t.checkpoint, LateRecompute: t.spec.Late,
		Partitioner: t.partitioner, Cost: t.cost, Device: run.device, Threads: 1,
	}
}
