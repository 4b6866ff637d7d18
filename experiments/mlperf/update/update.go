// Package update models the share of the weight update in a step, with and without
// dividing it over the cores.
package update

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
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

var Definition = lab.Definition{ID: "update-sharding", Folder: folder, New: lab.New[update], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	Accelerator string    `yaml:"accelerator" want:"accelerator"`
	DType       string    `yaml:"dtype" want:"dtype"`
	AllReduce   string    `yaml:"all_reduce" want:"all-reduce"`
	Tori        []torus   `yaml:"tori"` // of cores
	Networks    []network `yaml:"networks"`
	// Conventions are what the model leaves open. The first was fixed before anything was
	// compared; the others are shown on the largest torus.
	Conventions []convention `yaml:"conventions"`

	Profiles map[string]profile `yaml:"profiles"`
}

type convention struct {
	Name  string `yaml:"name" want:"name,key"`
	Links int    `yaml:"links" want:"1..4"` // of a core that carry gradients at once
	Tiled string `yaml:"tiled" want:"switch"`
}

type torus struct {
	X int `yaml:"x" want:"1..256"`
	Y int `yaml:"y" want:"1..256"`
}

func (t torus) cores() int { return t.X * t.Y }

type network struct {
	ID        string       `yaml:"id" want:"id,key"`
	Name      string       `yaml:"name" want:"name"`
	Model     train.Model  `yaml:"model"`
	Optimizer string       `yaml:"optimizer" want:"optimizer"`
	Examples  int          `yaml:"examples" want:"1..65536"` // of a core
	Scope     string       `yaml:"bn_scope" want:"scope,optional"`
	Paper     lab.Verbatim `yaml:"paper"` // percent of a step, on the largest torus
}

type profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Largest  int      `yaml:"largest" want:"1..64"` // how many of the tori
}

// update simulates steps.
type update struct {
	lab.Base[spec]
}

func (u *update) Resolve() *lab.Problem {
	if len(u.Spec.Tori) == 0 || len(u.Spec.Networks) == 0 {
		return lab.At(errors.New("want at least one torus and one network"), "tori")
	}
	if len(u.Spec.Conventions) == 0 {
		return lab.At(errors.New("want at least one"), "conventions")
	}
	for i, t := range u.Spec.Tori {
		path := []string{"tori", fmt.Sprint(i)}
		cores := t.cores()
		switch {
		case cores < 2:
			return lab.At(errors.New("want two cores or more"), path...)
		case i > 0 && cores <= u.Spec.Tori[i-1].cores():
			return lab.At(errors.New("want more cores than the one before"), path...)
		}
		for j, n := range u.Spec.Networks {
			if scope := lab.Named(gpipe.ParseScope, n.Scope); scope > 1 && cores%int(scope) != 0 {
				return lab.At(fmt.Errorf("batch norm over %v of %d cores: want a number that divides them", scope, cores), "networks", fmt.Sprint(j), "bn_scope")
			}
			if n.Examples > gpipe.MaxExamples/(cores) {
				return lab.At(fmt.Errorf("%d examples on each of %d cores: want at most %d in all", n.Examples, cores, gpipe.MaxExamples), "networks", fmt.Sprint(j), "examples")
			}
		}
	}
	for _, name := range lab.Profiles {
		if p, err := lab.ProfileOf(u.Spec.Profiles, name); err == nil && p.Largest > len(u.Spec.Tori) {
			return lab.At(fmt.Errorf("want at most %d, the number of tori", len(u.Spec.Tori)), "profiles", name, "largest")
		}
	}
	return nil
}

func (u *update) Planned(string) (list []lab.PlannedRun) {
	for i, n := range u.Spec.Networks {
		list = append(list, lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "model"}, Run: lab.ModelledRun{Model: n.Model, Most: 1}})
	}
	return list
}

// cell is a network on a torus; with one core there is no torus.
type cell struct {
	of     *network
	under  *convention
	torus  torus
	shared bool // the update is divided
}

func (c cell) cores() int { return max(c.torus.cores(), 1) }

func (u *update) name(c cell) string {
	name := fmt.Sprintf("%s/%s/cores=%d", c.of.ID, c.under.Name, c.cores())
	if c.shared {
		name += "/divided"
	}
	return lab.AtRates(name, u.Spec.Accelerator, nil)
}

// rows calls f for each row of the table: a network on a torus under a convention. The
// cells are a core by itself, the cores without sharding, and with it.
func (u *update) rows(tori []torus, f func(last bool, alone, whole, divided cell) error) error {
	for i := range u.Spec.Networks {
		for j := range u.Spec.Conventions {
			n, under := &u.Spec.Networks[i], &u.Spec.Conventions[j]
			for k, on := range tori {
				if last := k == len(u.Spec.Tori)-1; j == 0 || last {
					if err := f(last, cell{of: n, under: under}, cell{n, under, on, false}, cell{n, under, on, true}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// tori are those of a profile.
func (u *update) tori(name string) ([]torus, error) {
	p, err := lab.ProfileOf(u.Spec.Profiles, name)
	return u.Spec.Tori[:min(p.Largest, len(u.Spec.Tori))], err
}

// sample is the outcome of a step. Nothing in it depends on the machine.
type sample struct {
	Seconds float64 `json:"seconds"`
	Reduce  float64 `json:"all_reduce_seconds"` // of gradients and of updated weights
	Update  float64 `json:"update_seconds"`
	State   int64   `json:"param_bytes"` // weights and the optimiser's state of a core
	Peak    int64   `json:"peak_bytes"`
	Fits    bool    `json:"fits"`
}

func (u *update) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	tori, err := u.tori(log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []lab.Job
	err = u.rows(tori, func(_ bool, alone, whole, divided cell) error {
		for _, c := range []cell{alone, whole, divided} {
			name := u.name(c)
			jobs = append(jobs, lab.Job{Sample: name, Make: func(ctx context.Context) (any, string, error) {
				s, err := u.simulate(ctx, c)
				return s, name, err
			}})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return lab.MakeMissing(ctx, u.ID(), log, p, jobs)
}

func (u *update) simulate(ctx context.Context, c cell) (*sample, error) {
	n := c.of
	scope := gpipe.ReplicaScope
	if c.cores() > 1 {
		scope = lab.Named(gpipe.ParseScope, n.Scope)
	}
	r, err := simulate.Simulating{
		Model: n.Model, Accelerator: u.Spec.Accelerator, Batch: n.Examples * c.cores(), Optimizer: n.Optimizer, DType: lab.Named(train.ParseDType, u.Spec.DType),
		AllReduce: lab.Named(reduction.ParseKind, u.Spec.AllReduce), Torus: [2]int{max(c.torus.X, 1), max(c.torus.Y, 1)}, Accounting: gpipe.FullAccounting,
		Tiled: lab.Named(simulate.ParseSwitch, c.under.Tiled), Change: func(a *accelerator.Accelerator) { a.Link.Bandwidth *= float64(c.under.Links) },
		Setup: train.Setup{
			Partitions: 1, MicroBatches: 1, Replicas: c.cores(), BNScope: scope, ShardUpdate: c.shared, Schedule: schedule.GPipe, Checkpoint: schedule.Never,
		},
	}.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", u.ID(), u.name(c), err)
	}
	s := &sample{Seconds: r.StepSeconds, Reduce: r.ReduceSeconds, Update: r.UpdateSeconds, Fits: r.Fits}
	for _, d := range r.Devices {
		s.State, s.Peak = max(s.State, d.ParamBytes), max(s.Peak, d.PeakBytes)
	}
	return s, nil
}

// whole is a step without sharding: of the cores together, but with the update of a core by
// itself, which reads all weights for norms that cores of this program divide.
func whole(together, alone sample) sample {
	together.Seconds += alone.Update - together.Update
	together.Update = alone.Update
	return together
}

func (u *update) Report(log, _ *records.Log) (*lab.Report, error) {
	tori, err := u.tori(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	t := &lab.Table{ID: u.ID(), Title: u.Title(), Caption: []string{
		fmt.Sprintf("Update: the share of a step in which a core (%s) updates weights; without sharding it updates all of them, with sharding its part, and the cores gather the new weights. The all-reduce has gradients, and with sharding that gathering. State: weights and the optimiser's state of a core. %s activations, all-reduce %s, nothing recomputed.", u.Spec.Accelerator, u.Spec.DType, u.Spec.AllReduce),
	}}
	for _, n := range u.Spec.Networks {
		t.Caption = append(t.Caption, fmt.Sprintf("%s: %v, %s, %d examples on each core, batch norm's scope %v.", n.Name, n.Model, n.Optimizer, n.Examples, lab.Named(gpipe.ParseScope, n.Scope)))
	}
	for _, c := range u.Spec.Conventions {
		t.Caption = append(t.Caption, fmt.Sprintf("Convention %s: links that carry gradients at once: %d; activations padded to the lanes: %s.", c.Name, c.Links, c.Tiled))
	}
	t.Texts("network", "convention")
	t.Numbers("cores", "mini-batch", "step, whole", "step, divided", "speedup", "update, whole", "update, divided", "paper", "all-reduce, whole", "all-reduce, divided", "state, whole", "state, divided", "memory, whole", "memory, divided")
	unfit := false
	err = u.rows(tori, func(last bool, alone, together, shared cell) error {
		var one, each, divided sample
		for _, of := range []struct {
			cell cell
			to   *sample
		}{{alone, &one}, {together, &each}, {shared, &divided}} {
			if err := log.Get(u.name(of.cell), of.to); err != nil {
				return err
			}
		}
		each = whole(each, one)
		unfit = unfit || !each.Fits || !divided.Fits
		n, paper := together.of, lab.Absent
		if last {
			paper = lab.Value{Text: n.Paper.Text + "%", Numbers: []float64{n.Paper.Value}}
		}
		t.Add(n.Name, together.under.Name, together.cores(), n.Examples*together.cores(),
			lab.Seconds(each.Seconds), lab.Seconds(divided.Seconds), lab.Fixed(each.Seconds/divided.Seconds, 2),
			lab.Percent(each.Update/each.Seconds, 1), lab.Percent(divided.Update/divided.Seconds, 2), paper,
			lab.Percent(each.Reduce/each.Seconds, 1), lab.Percent(divided.Reduce/divided.Seconds, 1),
			lab.Bytes(each.State), lab.Bytes(divided.State), lab.Bytes(each.Peak), lab.Bytes(divided.Peak))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if unfit {
		t.Notes = append(t.Notes, "Some steps do not fit a core's memory.")
	}
	r := &lab.Report{Tables: []*lab.Table{t}}
	if len(tori) < 2 {
		return r, nil
	}
	r.Files, err = plot.Files(u.ID(), u.Title(), u.panels(t, tori))
	return r, err
}

// panels draw the update's share by cores, of each network.
func (u *update) panels(t *lab.Table, tori []torus) (all []plot.Axes) {
	var names []string
	for _, on := range tori {
		names = append(names, fmt.Sprint(on.cores()))
	}
	for _, n := range u.Spec.Networks {
		p := &plot.LinePanel{Title: n.Name, X: "cores", Y: "update, % of a step", Names: names, FromZero: true}
		for _, way := range []string{"whole", "divided"} {
			var points []plot.Point
			for _, row := range t.Rows {
				if row[0].Text == n.Name && row[1].Text == u.Spec.Conventions[0].Name {
					points = append(points, plot.Point{X: float64(len(points)), Y: row[t.Column("update, "+way)].Numbers[0]})
				}
			}
			p.Series = append(p.Series, plot.Series{Name: way, Lines: [][]plot.Point{points}})
		}
		all = append(all, p)
	}
	return all
}
