// Package seconds models how long trainings took on pods.
package seconds

import (
	"context"
	"embed"
	"errors"
	"fmt"
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

var Definition = lab.Definition{ID: "benchmark-seconds", Folder: folder, New: lab.New[seconds], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	Accelerator string    `yaml:"accelerator" want:"accelerator"`
	DType       string    `yaml:"dtype" want:"dtype"`
	AllReduce   string    `yaml:"all_reduce" want:"all-reduce"`
	Networks    []network `yaml:"networks"`
	Printed     []printed `yaml:"printed"`

	Profiles map[string]profile `yaml:"profiles"`
}

// network is one that was submitted.
type network struct {
	ID        string      `yaml:"id" want:"id,key"`
	Name      string      `yaml:"name" want:"name"`
	Model     train.Model `yaml:"model"`
	Optimizer string      `yaml:"optimizer" want:"optimizer"`
	Examples  int         `yaml:"examples" want:"0..1000000000"` // of an epoch; 0: runs have its steps
	Runs      []run       `yaml:"runs"`
}

// printed is a figure of the paper that is another one elsewhere.
type printed struct {
	ID      string       `yaml:"id" want:"id,key"`
	What    string       `yaml:"what" want:"name"`
	Printed lab.Verbatim `yaml:"printed"`
	Found   lab.Verbatim `yaml:"found"`
	In      string       `yaml:"in" want:"name"`
}

// run is what was logged on a number of cores.
type run struct {
	Torus struct { // of cores
		X int `yaml:"x" want:"1..256"`
		Y int `yaml:"y" want:"1..256"`
	} `yaml:"torus"`
	Batch   int          `yaml:"batch" want:"1..16777216"`
	Epochs  lab.Verbatim `yaml:"epochs"`
	Seconds lab.Verbatim `yaml:"seconds"`
	Spatial int          `yaml:"spatial" want:"0..64"`             // cores that divide each image by its rows; 0: 1
	Scope   string       `yaml:"bn_scope" want:"scope,optional"`   // in groups of such cores
	Steps   int          `yaml:"epoch_steps" want:"0..1000000000"` // of an epoch; 0: its examples over the mini-batch
}

func (r run) cores() int { return r.Torus.X * r.Torus.Y }

// spatial is the number of cores that have an image together.
func (r run) spatial() int { return max(r.Spatial, 1) }

// groups is the number of replicas: each is one core, or those that divide its images.
func (r run) groups() int { return r.cores() / r.spatial() }

// ranks says what a mini-batch and batch norm's statistics are divided over.
func (r run) ranks() string {
	if r.spatial() == 1 {
		return fmt.Sprintf("%d cores", r.cores())
	}
	return fmt.Sprintf("%d groups of %d cores", r.groups(), r.spatial())
}

// steps of a whole training.
func (n *network) steps(r run) float64 {
	if r.Steps > 0 {
		return r.Epochs.Value * float64(r.Steps)
	}
	return r.Epochs.Value * float64(n.Examples) / float64(r.Batch)
}

type profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Most     int      `yaml:"most" want:"1..64"` // how many of a network's runs
}

// seconds simulates a step of each run.
type seconds struct {
	lab.Base[spec]
}

func (s *seconds) Resolve() *lab.Problem {
	if len(s.Spec.Networks) == 0 {
		return lab.At(errors.New("want at least one"), "networks")
	}
	most := 0
	for i, n := range s.Spec.Networks {
		at := []string{"networks", fmt.Sprint(i)}
		if len(n.Runs) == 0 {
			return lab.At(errors.New("want at least one"), append(at, "runs")...)
		}
		most = max(most, len(n.Runs))
		for j, r := range n.Runs {
			path := append(slices.Clone(at), "runs", fmt.Sprint(j))
			scope := lab.Named(gpipe.ParseScope, r.Scope)
			switch cores := r.cores(); {
			case cores < 2:
				return lab.At(errors.New("want two cores or more"), append(path, "torus")...)
			case j > 0 && cores <= n.Runs[j-1].cores():
				return lab.At(errors.New("want more cores than the one before"), append(path, "torus")...)
			case cores%r.spatial() != 0 || r.groups() < 2:
				return lab.At(fmt.Errorf("%d of %d cores for each image: want a number that divides them into two groups or more", r.Spatial, cores), append(path, "spatial")...)
			case r.Batch%r.groups() != 0:
				return lab.At(fmt.Errorf("%d examples on %s: want as many on each", r.Batch, r.ranks()), append(path, "batch")...)
			case scope > 1 && r.groups()%int(scope) != 0:
				return lab.At(fmt.Errorf("batch norm over %v of %s: want a number that divides them", scope, r.ranks()), append(path, "bn_scope")...)
			case !(r.Epochs.Value > 0) || !(r.Seconds.Value > 0):
				return lab.At(errors.New("want epochs and seconds above 0"), path...)
			case (n.Examples > 0) == (r.Steps > 0):
				return lab.At(errors.New("want either the network's examples or the steps of an epoch"), path...)
			}
		}
	}
	for _, name := range lab.Profiles {
		if p, err := lab.ProfileOf(s.Spec.Profiles, name); err == nil && p.Most > most {
			return lab.At(fmt.Errorf("want at most %d, the largest number of runs", most), "profiles", name, "most")
		}
	}
	return nil
}

func (s *seconds) Planned(string) (list []lab.PlannedRun) {
	for i, n := range s.Spec.Networks {
		list = append(list, lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "model"}, Run: lab.ModelledRun{Model: n.Model, Most: 1}})
	}
	return list
}

// each calls f for every run of a profile.
func (s *seconds) each(profile string, f func(*network, run) error) error {
	p, err := lab.ProfileOf(s.Spec.Profiles, profile)
	if err != nil {
		return err
	}
	for i := range s.Spec.Networks {
		n := &s.Spec.Networks[i]
		for _, r := range n.Runs[:min(p.Most, len(n.Runs))] {
			if err := f(n, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// sample is a step. Nothing in it depends on the machine.
type sample struct {
	Seconds float64 `json:"seconds"`
	Reduce  float64 `json:"all_reduce_seconds"`
	Update  float64 `json:"update_seconds"`
	Fits    bool    `json:"fits"`
}

func (s *seconds) name(n *network, r run) string {
	return lab.AtRates(fmt.Sprintf("%s/cores=%d", n.ID, r.cores()), s.Spec.Accelerator, nil)
}

func (s *seconds) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	if err := s.each(log.Key.Profile, func(n *network, r run) error {
		jobs = append(jobs, lab.Job{Sample: s.name(n, r), Make: func(ctx context.Context) (any, string, error) {
			made, err := s.simulate(ctx, n, r)
			return made, s.name(n, r), err
		}})
		return nil
	}); err != nil {
		return err
	}
	return lab.MakeMissing(ctx, s.ID(), log, p, jobs)
}

// simulate models a step. Of a group that divides its images, one core with all of them is
// simulated as each of the cores, which have the all-reduce and the divided update in common;
// what a group's F and B take less is added, without its own sums of gradients, which are
// part of the all-reduce.
func (s *seconds) simulate(ctx context.Context, n *network, r run) (*sample, error) {
	examples := r.Batch / r.groups()
	step := simulate.Simulating{
		Model: n.Model, Accelerator: s.Spec.Accelerator, Batch: examples * r.cores(), Optimizer: n.Optimizer, DType: lab.Named(train.ParseDType, s.Spec.DType),
		AllReduce: lab.Named(reduction.ParseKind, s.Spec.AllReduce), Torus: [2]int{r.Torus.X, r.Torus.Y}, Accounting: gpipe.FullAccounting,
		Setup: train.Setup{
			Partitions: 1, MicroBatches: 1, Replicas: r.cores(), BNScope: lab.Named(gpipe.ParseScope, r.Scope), ShardUpdate: true,
			Schedule: schedule.GPipe, Checkpoint: schedule.Never,
		},
	}
	made, err := step.Run(ctx)
	var saved float64
	if err == nil && r.spatial() > 1 {
		saved, err = saves(ctx, step, examples, r.spatial())
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", s.ID(), s.name(n, r), err)
	}
	return &sample{Seconds: made.StepSeconds - saved, Reduce: made.ReduceSeconds, Update: made.UpdateSeconds, Fits: made.Fits}, nil
}

// saves returns by how many seconds F and B of some images are shorter on cores that divide
// them than on one core, but for sums of gradients.
func saves(ctx context.Context, step simulate.Simulating, examples, cores int) (float64, error) {
	in := step.Model.Input(examples)
	step.Batch, step.AllReduce, step.Torus = examples, reduction.Ring, [2]int{}
	step.Setup = train.Setup{Partitions: 1, MicroBatches: 1, Schedule: schedule.GPipe, Checkpoint: schedule.Never}
	p, err := step.Pipeline(ctx, in)
	if err != nil {
		return 0, err
	}
	one, err := p.ModelSpatial(in, 1, step.Modelling())
	if err != nil {
		return 0, err
	}
	group, err := p.ModelSpatial(in, cores, step.Modelling())
	return one.Seconds() - (group.Seconds() - group.Sums), err
}

// printed lists what the paper prints and what was found.
func (s *seconds) printed() *lab.Table {
	t := &lab.Table{ID: s.ID() + "-printed", Title: "The paper's text beside logs, programs and figures"}
	t.Texts("id", "what")
	t.Numbers("printed", "found")
	t.Texts("in")
	for _, p := range s.Spec.Printed {
		t.Add(p.ID, p.What, lab.Value{Text: p.Printed.Text, Numbers: []float64{p.Printed.Value}}, lab.Value{Text: p.Found.Text, Numbers: []float64{p.Found.Value}}, p.In)
	}
	return t
}

func (s *seconds) Report(log, _ *records.Log) (*lab.Report, error) {
	t := &lab.Table{ID: s.ID(), Title: s.Title(), Caption: []string{
		fmt.Sprintf("Modelled cores (%s), %s activations, all-reduce %s, updates divided, nothing recomputed. Modelled: the steps alone. Logged: the whole benchmark, with evaluations.", s.Spec.Accelerator, s.Spec.DType, s.Spec.AllReduce),
	}}
	for _, n := range s.Spec.Networks {
		t.Caption = append(t.Caption, fmt.Sprintf("%s: %v with %s.", n.Name, n.Model, n.Optimizer))
	}
	t.Texts("network")
	t.Numbers("cores", "cores an image", "mini-batch", "examples a core", "epochs", "steps", "step", "all-reduce", "update", "modelled s", "logged s", "modelled / logged", "logged s a step")
	unfit := false
	if err := s.each(log.Key.Profile, func(n *network, r run) error {
		var of sample
		if err := log.Get(s.name(n, r), &of); err != nil {
			return err
		}
		unfit = unfit || !of.Fits
		steps := n.steps(r)
		t.Add(n.Name, r.cores(), r.spatial(), r.Batch, lab.Number("%g", float64(r.Batch)/float64(r.cores())), lab.Value{Text: r.Epochs.Text, Numbers: []float64{r.Epochs.Value}}, lab.Number("%.0f", steps),
			lab.Seconds(of.Seconds), lab.Percent(of.Reduce/of.Seconds, 1), lab.Percent(of.Update/of.Seconds, 2),
			lab.Fixed(steps*of.Seconds, 1), lab.Fixed(r.Seconds.Value, 1), lab.Fixed(steps*of.Seconds/r.Seconds.Value, 3), lab.Seconds(r.Seconds.Value/steps))
		return nil
	}); err != nil {
		return nil, err
	}
	if unfit {
		t.Notes = append(t.Notes, "Some steps do not fit a core's memory.")
	}
	rep := &lab.Report{Tables: []*lab.Table{t, s.printed()}}
	var panels []plot.Axes
	for _, n := range s.Spec.Networks {
		p := &plot.LinePanel{Title: n.Name, X: "cores", Y: "benchmark seconds", Logarithmic: true}
		var modelled, logged []plot.Point
		for _, row := range t.Rows {
			if row[0].Text == n.Name {
				at := float64(len(p.Names))
				p.Names = append(p.Names, row[t.Column("cores")].Text)
				modelled = append(modelled, plot.Point{X: at, Y: row[t.Column("modelled s")].Numbers[0]})
				logged = append(logged, plot.Point{X: at, Y: row[t.Column("logged s")].Numbers[0]})
			}
		}
		p.Series = []plot.Series{{Name: "modelled", Lines: [][]plot.Point{modelled}}, {Name: "logged", Lines: [][]plot.Point{logged}, Dashed: true}}
		if len(modelled) > 1 {
			panels = append(panels, p)
		}
	}
	if len(panels) == 0 {
		return rep, nil
	}
	var err error
	rep.Files, err = plot.Files(s.ID(), s.Title(), panels)
	return rep, err
}
