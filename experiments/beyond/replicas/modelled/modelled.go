// Package modelled times steps on many replicas, on modelled accelerators.
package modelled

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/simulate"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "replicas-modelled", Folder: folder, New: lab.New[modelled], Command: "replicas"}

// spec is spec.yaml.
type spec struct {
	lab.Head   `yaml:",inline"`
	Sides      []int     `yaml:"sides" want:"1..256"` // of the tori of replicas
	Ways       []way     `yaml:"ways"`
	Schedule   string    `yaml:"schedule" want:"schedule"`
	Checkpoint string    `yaml:"checkpoint" want:"checkpoint"`
	Networks   []network `yaml:"networks"`

	Profiles map[string]profile `yaml:"profiles"`
}

// way is a way to add up gradients.
type way struct {
	Name      string `yaml:"name" want:"name,key"`
	AllReduce string `yaml:"all_reduce" want:"all-reduce"`
	Shard     bool   `yaml:"shard_update"`
}

type network struct {
	ID          string      `yaml:"id" want:"id,key"`
	Name        string      `yaml:"name" want:"name"`
	Model       train.Model `yaml:"model"`
	Accelerator string      `yaml:"accelerator" want:"accelerator"`
	DType       string      `yaml:"dtype" want:"dtype"`
	Optimizer   string      `yaml:"optimizer" want:"optimizer"`
	K           int         `yaml:"k" want:"1..1024"`
	Micro       int         `yaml:"micro"`                  // examples of a micro-batch
	M           int         `yaml:"m" want:"1..1024"`       // weak: micro-batches of a replica
	StrongM     int         `yaml:"strong_m" want:"1..256"` // strong: at the most replicas
}

type profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Most     int      `yaml:"most" want:"1..256"` // the longest side
}

// modelled simulates steps on replicas with as many examples each, and with one
// mini-batch for all.
type modelled struct {
	lab.Base[spec]
}

func (m *modelled) Resolve() *lab.Problem {
	if m.Spec.Sides[0] != 1 || !slices.IsSorted(m.Spec.Sides) {
		return lab.At(errors.New("want 1 first, in ascending order: others are compared with one replica"), "sides")
	}
	for i, n := range m.Spec.Networks {
		if slices.ContainsFunc(m.Spec.Networks[:i], func(other network) bool { return other.Name == n.Name }) {
			return lab.At(fmt.Errorf("%s is there twice: want names of their own", n.Name), "networks", fmt.Sprint(i), "name")
		}
	}
	for _, name := range lab.Profiles {
		sides, most, err := m.sides(name)
		if err == nil {
			err = m.rows(sides, func(row []cell) error { return row[0].check(most) })
		}
		if err != nil {
			return lab.At(err, "profiles", name, "most")
		}
	}
	return nil
}

func (m *modelled) Planned(string) (list []lab.PlannedRun) {
	for i, n := range m.Spec.Networks {
		list = append(list, lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "model"}, Run: lab.ModelledRun{Model: n.Model, Most: n.K}})
	}
	return list
}

const weak, strong = "weak", "strong"

// cell is a step: a network on a torus of replicas.
type cell struct {
	of   *network
	kind string
	side int
	way  *way
}

// replicas is R.
func (c cell) replicas() int { return c.side * c.side }

// micro is M, of each replica; most is the largest R.
func (c cell) micro(most int) int {
	if c.kind == weak {
		return c.of.M
	}
	return c.of.StrongM * most / c.replicas()
}

// batch is the mini-batch.
func (c cell) batch(most int) int { return c.of.Micro * c.micro(most) * c.replicas() }

// check refuses a step whose mini-batch cannot be divided, or is too large.
func (c cell) check(most int) error {
	switch r := c.replicas(); {
	case most%r != 0:
		return fmt.Errorf("a mini-batch for %d replicas cannot be divided over %d: want sides that divide the longest", most, r)
	case c.micro(most)*r > gpipe.MaxTasks/c.of.K:
		return fmt.Errorf("%s: %d micro-batches on each of %d replicas of %d stages: want a product of at most %d", c.of.Name, c.micro(most), r, c.of.K, gpipe.MaxTasks)
	case c.of.Micro > gpipe.MaxExamples/(c.micro(most)*r):
		return fmt.Errorf("%s: %d micro-batches of %d examples on each of %d replicas: want at most %d examples", c.of.Name, c.micro(most), c.of.Micro, r, gpipe.MaxExamples)
	}
	return nil
}

// name is that of the step's sample. One replica adds up nothing, in whatever way.
func (c cell) name() string {
	name := fmt.Sprintf("%s/%s/R=%d", c.of.ID, c.kind, c.replicas())
	if c.side > 1 {
		name += "/" + c.way.Name
	}
	return lab.AtRates(name, c.of.Accelerator, nil)
}

// sides are those of a profile.
func (m *modelled) sides(name string) (sides []int, most int, err error) {
	p, err := lab.ProfileOf(m.Spec.Profiles, name)
	for _, side := range m.Spec.Sides {
		if side <= p.Most {
			sides, most = append(sides, side), side*side
		}
	}
	return sides, most, err
}

// rows calls f for the steps of each row, one of each way.
func (m *modelled) rows(sides []int, f func(row []cell) error) error {
	for i := range m.Spec.Networks {
		for _, kind := range []string{weak, strong} {
			for _, side := range sides {
				var row []cell
				for j := range m.Spec.Ways {
					row = append(row, cell{&m.Spec.Networks[i], kind, side, &m.Spec.Ways[j]})
				}
				if err := f(row); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sample is the outcome of a step. Nothing in it depends on the machine.
type sample struct {
	Seconds float64 `json:"seconds"`
	Reduce  float64 `json:"all_reduce_seconds"` // of the stage that takes longest
	Update  float64 `json:"update_seconds"`     // the same
	Params  int64   `json:"param_bytes"`        // with the optimiser's state, on the fullest device
	Fits    bool    `json:"fits"`
}

func (m *modelled) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	sides, most, err := m.sides(log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []lab.Job
	err = m.rows(sides, func(row []cell) error {
		for _, c := range row {
			name := c.name()
			jobs = append(jobs, lab.Job{Sample: name, Make: func(ctx context.Context) (any, string, error) {
				s, err := m.simulate(ctx, c, most)
				return s, name, err
			}})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return lab.MakeMissing(ctx, m.ID(), log, p, jobs)
}

func (m *modelled) simulate(ctx context.Context, c cell, most int) (*sample, error) {
	n := c.of
	r, err := simulate.Simulating{
		Model: n.Model, Accelerator: n.Accelerator, Batch: c.batch(most), Optimizer: n.Optimizer, DType: lab.Named(train.ParseDType, n.DType),
		AllReduce: lab.Named(reduction.ParseKind, c.way.AllReduce), Torus: [2]int{c.side, c.side},
		Setup: train.Setup{
			Partitions: n.K, MicroBatches: c.micro(most), Replicas: c.replicas(), ShardUpdate: c.way.Shard,
			Schedule: lab.Named(schedule.Parse, m.Spec.Schedule), Checkpoint: lab.Named(schedule.ParseCheckpoint, m.Spec.Checkpoint),
		},
	}.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", m.ID(), c.name(), err)
	}
	s := &sample{Seconds: r.StepSeconds, Reduce: r.ReduceSeconds, Update: r.UpdateSeconds, Fits: r.Fits}
	for _, d := range r.Devices {
		s.Params = max(s.Params, d.ParamBytes)
	}
	return s, nil
}

func (m *modelled) Report(log, _ *records.Log) (*lab.Report, error) {
	sides, most, err := m.sides(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	table := &lab.Table{ID: m.ID(), Title: m.Title(), Caption: []string{
		"Weak: as many examples on each replica whatever R. Strong: one mini-batch for all of them. Efficiency: throughput over that of R = 1, divided by R. The columns are ways to add up gradients on a torus of replicas: by halving and doubling (tree), along one ring, along rings of both sides (2d), and this with updates that are divided over the replicas.",
	}}
	steps := &lab.Table{ID: m.ID() + "-steps", Title: "Replicas, modelled: steps and what replicas add to them", Caption: []string{
		"All-reduce and update: the share of the step, on the stage that takes longest. Parameters: with the optimiser's state, on the fullest device.",
	}}
	for _, n := range m.Spec.Networks {
		table.Caption = append(table.Caption, fmt.Sprintf("%s: %v in %s on %s at measured rates, %s, K = %d, schedule %s, checkpoint %s, micro-batches of %d; M = %d (weak).",
			n.Name, n.Model, n.DType, n.Accelerator, n.Optimizer, n.K, m.Spec.Schedule, m.Spec.Checkpoint, n.Micro, n.M))
	}
	for _, t := range []*lab.Table{table, steps} {
		t.Texts("network", "scaling")
		t.Numbers("R")
	}
	table.Numbers("accelerators", "mini-batch", "M")
	m.columns(table, "efficiency", "examples/s")
	m.columns(steps, "step", "all-reduce", "update", "parameters")
	unfit := map[string]bool{}
	var firsts []sample // of one replica, by way
	err = m.rows(sides, func(row []cell) error {
		c := row[0]
		samples := make([]sample, len(row))
		for i, one := range row {
			if err := log.Get(one.name(), &samples[i]); err != nil {
				return err
			}
			if !samples[i].Fits {
				unfit[fmt.Sprintf("%s, %s, R = %d", c.of.Name, c.kind, c.replicas())] = true
			}
		}
		if c.side == 1 {
			firsts = samples
		}
		of := func(cell func(i int, s sample) lab.Value) (cells []lab.Value) {
			for i, s := range samples {
				cells = append(cells, cell(i, s))
			}
			return cells
		}
		batch := float64(c.batch(most))
		table.Add(c.of.Name, c.kind, c.replicas(), c.replicas()*c.of.K, c.batch(most), c.micro(most),
			of(func(i int, s sample) lab.Value {
				one := firsts[i].Seconds
				if c.kind == strong {
					one /= float64(c.replicas())
				}
				return lab.Percent(one/s.Seconds, 1)
			}),
			of(func(_ int, s sample) lab.Value { return lab.Number("%.0f", batch/s.Seconds) }))
		steps.Add(c.of.Name, c.kind, c.replicas(),
			of(func(_ int, s sample) lab.Value { return lab.Seconds(s.Seconds) }),
			of(func(_ int, s sample) lab.Value { return lab.Percent(s.Reduce/s.Seconds, 1) }),
			of(func(_ int, s sample) lab.Value { return lab.Percent(s.Update/s.Seconds, 1) }),
			of(func(_ int, s sample) lab.Value { return lab.Bytes(s.Params) }))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, what := range slices.Sorted(maps.Keys(unfit)) {
		table.Notes = append(table.Notes, "Does not fit the accelerators' memory: "+what+".")
	}
	report := &lab.Report{Tables: []*lab.Table{table, steps}}
	report.Files, err = plot.Files(m.ID(), m.Title(), m.panels(table, steps, sides))
	return report, err
}

// columns adds a column for each figure and way.
func (m *modelled) columns(t *lab.Table, figures ...string) {
	for _, figure := range figures {
		for _, w := range m.Spec.Ways {
			t.Numbers(figure + ", " + w.Name)
		}
	}
}

// panels draw, for each network, the efficiency of both kinds of scaling, added up in the
// last way, and what the ways take of a step.
func (m *modelled) panels(table, steps *lab.Table, sides []int) []plot.Axes {
	line := func(t *lab.Table, name, kind, column string) plot.Series {
		var points []plot.Point
		for _, row := range t.Rows {
			if row[0].Text == name && row[1].Text == kind {
				points = append(points, plot.Point{X: float64(len(points)), Y: row[t.Column(column)].Numbers[0]})
			}
		}
		return plot.Series{Lines: [][]plot.Point{points}}
	}
	var names []string
	for _, side := range sides {
		names = append(names, fmt.Sprint(side*side))
	}
	last := m.Spec.Ways[len(m.Spec.Ways)-1].Name
	var efficiencies, shares []plot.Axes
	for _, n := range m.Spec.Networks {
		p := &plot.LinePanel{Title: n.Name, X: "R", Y: "efficiency, %", Names: names, FromZero: true}
		for _, kind := range []string{weak, strong} {
			s := line(table, n.Name, kind, "efficiency, "+last)
			s.Name = kind + " scaling, " + last
			p.Series = append(p.Series, s)
		}
		efficiencies = append(efficiencies, p)
		p = &plot.LinePanel{Title: n.Name + ", weak scaling", X: "R", Y: "all-reduce, % of the step", Names: names, FromZero: true}
		for _, w := range m.Spec.Ways {
			s := line(steps, n.Name, weak, "all-reduce, "+w.Name)
			s.Name = w.Name
			p.Series = append(p.Series, s)
		}
		shares = append(shares, p)
	}
	return slices.Concat(plot.OneScale(efficiencies), plot.OneScale(shares))
}
