package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
)

// table2Spec is table2.yaml.
type table2Spec struct {
	head        `yaml:",inline"`
	K           []int       `yaml:"k"`
	M           []int       `yaml:"m"`
	Base        cell        `yaml:"base"`
	Batch       int         `yaml:"batch"`
	Schedule    string      `yaml:"schedule"`
	Checkpoint  string      `yaml:"checkpoint"`
	Late        bool        `yaml:"late_recompute"`
	Partitioner string      `yaml:"partitioner"`
	Cost        string      `yaml:"cost"`
	Optimizer   string      `yaml:"optimizer"`
	LR          float64     `yaml:"lr"`
	HostM       int         `yaml:"host_m"`
	Paper       []paperCell `yaml:"paper"`
	PaperModel  Model       `yaml:"paper_model"`

	Profiles map[string]table2Profile `yaml:"profiles"`
}

// cell is one of the table's.
type cell struct {
	K int `yaml:"k"`
	M int `yaml:"m"`
}

type paperCell struct {
	cell  `yaml:",inline"`
	Value verbatim `yaml:"value"`
}

type table2Profile struct {
	Expected span        `yaml:"expected"`
	Model    Model       `yaml:"model"`
	Rounds   int         `yaml:"rounds"`
	Steps    map[int]int `yaml:"steps"`   // in a round, by M
	WarmUp   int         `yaml:"warm_up"` // steps discarded
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
}

func loadTable2() (Experiment, error) {
	t := &table2{}
	var err error
	t.text, err = loadSpec("table2.yaml", &t.spec, t.check)
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
		if p.Rounds < 1 {
			return at(fmt.Errorf("%d rounds: want 1 or more", p.Rounds), "profiles", name, "rounds")
		}
		for _, m := range append(t.spec.M, t.spec.HostM) {
			if p.Steps[m] < 1 {
				return at(fmt.Errorf("no steps for M = %d: want 1 or more", m), "profiles", name, "steps")
			}
		}
	}
	for _, c := range t.cells() {
		if _, ok := t.paper(c); !ok {
			return at(fmt.Errorf("no value for K = %d, M = %d", c.K, c.M), "paper")
		}
		if t.spec.Batch%c.M != 0 {
			return at(fmt.Errorf("%d micro-batches of %d examples are not of one size", c.M, t.spec.Batch), "m")
		}
	}
	if base, ok := t.paper(t.spec.Base); !ok || base.Value != 1 {
		return at(errors.New("want the cell whose value in the paper is 1"), "base")
	}
	return nil
}

func (t *table2) ID() string    { return t.spec.Experiment }
func (t *table2) Title() string { return t.spec.Title }

func (t *table2) Expected(profile string) time.Duration {
	return time.Duration(t.spec.Profiles[profile].Expected)
}

func (t *table2) Key(profile string) Key { return key(t.ID(), profile, t.text, "table2.go") }

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

func (r table2Run) sample(round, step int) string {
	return fmt.Sprintf("%s/round=%d/step=%d", r.name(), round, step)
}

// cores is how many a run keeps busy.
func (r table2Run) cores() int {
	if r.device == gpipe.Emulated {
		return 1
	}
	return r.K
}

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

// table2Sample is one timed step. Tasks are in nanoseconds, by stage and
// micro-batch.
type table2Sample struct {
	Seconds   float64   `json:"seconds"` // of the step, on its devices' clock
	F         [][]int64 `json:"f"`
	R         [][]int64 `json:"r"`
	B         [][]int64 `json:"b"`
	Setup     []int64   `json:"setup"`
	Update    []int64   `json:"update"`
	Partition []int     `json:"partition"`
	Peak      []int64   `json:"peak_bytes"`
	HighWater []int64   `json:"high_water_bytes"`
	Others    float64   `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// Measure goes through the runs in rounds: every round times every cell, so
// that a disturbance or a drift hits all of them alike, and ratios are taken
// within a round. Which cell is first moves from round to round.
func (t *table2) Measure(ctx context.Context, log *Log, p Progress) error {
	profile, err := profileOf(t.spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	runs := t.runs(min(runtime.NumCPU(), runtime.GOMAXPROCS(0)))
	type turn struct{ run, round, step int }
	var turns []turn
	for round := range profile.Rounds {
		for i := range runs {
			i = (i + round) % len(runs)
			for step := range profile.Steps[runs[i].M] {
				if !log.Has(runs[i].sample(round, step)) {
					turns = append(turns, turn{i, round, step})
				}
			}
		}
	}
	if len(turns) == 0 {
		return nil
	}
	source, err := datasets.NewSynthetic(datasets.Config{
		SeqLen: profile.Model.Seq, Seed: t.spec.Seed,
		Synthetic: datasets.SyntheticConfig{Vocab: profile.Model.Vocab, Successors: successors(profile.Model.Vocab)},
	})
	if err != nil {
		return err
	}
	batch, err := source.Batch(datasets.Train, 0, t.spec.Batch)
	if err != nil {
		return err
	}
	open := make([]*gpipe.Trainer, len(runs))
	defer func() {
		for _, tr := range open {
			if tr != nil {
				tr.Close()
			}
		}
	}()
	p.Begin(fmt.Sprintf("table2: %d rounds over %d pipelines", profile.Rounds, len(runs)), len(turns))
	for _, now := range turns {
		run := runs[now.run]
		if open[now.run] == nil {
			if open[now.run], err = t.open(ctx, run, profile); err != nil {
				return fmt.Errorf("table2, %s: %w", run.name(), err)
			}
			for range profile.WarmUp {
				if _, err := open[now.run].Step(ctx, batch); err != nil {
					return fmt.Errorf("table2, %s: %w", run.name(), err)
				}
			}
		}
		trainer := open[now.run]
		meter := startMeter()
		res, err := trainer.Step(ctx, batch)
		if err != nil {
			return fmt.Errorf("table2, %s: %w", run.name(), err)
		}
		s := newTable2Sample(res)
		s.Others = meter.others()
		s.Partition, _ = trainer.Sizes()
		s.Peak, s.HighWater = memoryOf(trainer)
		if err := log.Add(run.sample(now.round, now.step), t.spec.Seed, s); err != nil {
			return err
		}
		p.Advance(fmt.Sprintf("%s  step %s", run.sample(now.round, now.step), FormatSeconds(res.Seconds)))
	}
	p.End()
	return nil
}

// successors is a number of successors for the synthetic language that divides
// its vocabulary.
func successors(vocab int) int {
	for _, n := range []int{4, 5, 3, 2} {
		if vocab%n == 0 {
			return n
		}
	}
	return 2
}

func (t *table2) open(ctx context.Context, run table2Run, profile table2Profile) (*gpipe.Trainer, error) {
	training := Training{
		Model: profile.Model, Batch: t.spec.Batch, Seed: t.spec.Seed,
		Optimizer: t.spec.Optimizer, LR: t.spec.LR, LRSchedule: "constant",
		Setup: t.setup(run),
	}
	trainer, _, err := training.open(ctx)
	return trainer, err
}

func (t *table2) setup(run table2Run) Setup {
	return Setup{
		Partitions: run.K, MicroBatches: run.M, Schedule: t.schedule, Checkpoint: t.checkpoint, LateRecompute: t.spec.Late,
		Partitioner: t.partitioner, Cost: t.cost, Device: run.device, Threads: 1,
	}
}

func newTable2Sample(res *gpipe.Result) *table2Sample {
	s := &table2Sample{Seconds: res.Seconds}
	for i := range res.Times.Stages {
		st := &res.Times.Stages[i]
		s.F = append(s.F, nanoseconds(st.F))
		s.R = append(s.R, nanoseconds(st.R))
		s.B = append(s.B, nanoseconds(st.B))
		s.Setup = append(s.Setup, nanoseconds([]float64{st.Setup})...)
		s.Update = append(s.Update, nanoseconds([]float64{st.Update})...)
	}
	return s
}

func nanoseconds(seconds []float64) []int64 {
	ns := make([]int64, len(seconds))
	for i, s := range seconds {
		ns[i] = int64(math.Round(s * 1e9))
	}
	return ns
}

func fromNanoseconds(ns []int64) []float64 {
	seconds := make([]float64, len(ns))
	for i, n := range ns {
		seconds[i] = float64(n) / 1e9
	}
	return seconds
}

// times is the sample as the virtual clock takes it.
func (s *table2Sample) times(lists [][]schedule.Task) *gpipe.Times {
	t := &gpipe.Times{Lists: lists}
	for k := range s.F {
		t.Stages = append(t.Stages, gpipe.StageTimes{
			F: fromNanoseconds(s.F[k]), R: fromNanoseconds(s.R[k]), B: fromNanoseconds(s.B[k]),
			Setup: float64(s.Setup[k]) / 1e9, Update: float64(s.Update[k]) / 1e9,
		})
	}
	return t
}
