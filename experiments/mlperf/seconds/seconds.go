// Package seconds models how long trainings of ResNet-50 took on pods.
package seconds

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/simulation"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "benchmark-seconds", Folder: folder, New: suite.New[seconds], Untimed: true}

// spec is spec.yaml.
type spec struct {
	suite.Head  `yaml:",inline"`
	Accelerator string         `yaml:"accelerator" want:"accelerator"`
	DType       string         `yaml:"dtype" want:"dtype"`
	AllReduce   string         `yaml:"all_reduce" want:"all-reduce"`
	Model       workload.Model `yaml:"model"`
	Optimizer   string         `yaml:"optimizer" want:"optimizer"`
	Images      int            `yaml:"images" want:"1..1000000000"` // of an epoch
	Runs        []run          `yaml:"runs"`
	Printed     []printed      `yaml:"printed"`

	Profiles map[string]profile `yaml:"profiles"`
}

// printed is a figure of the paper that is another one elsewhere.
type printed struct {
	ID      string         `yaml:"id" want:"id,key"`
	What    string         `yaml:"what" want:"name"`
	Printed suite.Verbatim `yaml:"printed"`
	Found   suite.Verbatim `yaml:"found"`
	In      string         `yaml:"in" want:"name"`
}

// run is what was logged on a number of cores.
type run struct {
	Torus struct { // of cores
		X int `yaml:"x" want:"1..256"`
		Y int `yaml:"y" want:"1..256"`
	} `yaml:"torus"`
	Batch   int            `yaml:"batch" want:"1..16777216"`
	Epochs  suite.Verbatim `yaml:"epochs"`
	Seconds suite.Verbatim `yaml:"seconds"`
	Scope   string         `yaml:"bn_scope" want:"scope,optional"`
}

func (r run) cores() int { return r.Torus.X * r.Torus.Y }

// steps of a whole training.
func (r run) steps(images int) float64 { return r.Epochs.Value * float64(images) / float64(r.Batch) }

type profile struct {
	Expected suite.Span `yaml:"expected" want:"shown"`
	Most     int        `yaml:"most" want:"1..64"` // how many of the runs
}

// seconds simulates a step of each run.
type seconds struct {
	suite.Base[spec]
}

func (s *seconds) Resolve() *suite.Problem {
	if len(s.Spec.Runs) == 0 {
		return suite.At(errors.New("want at least one"), "runs")
	}
	for i, r := range s.Spec.Runs {
		path := []string{"runs", fmt.Sprint(i)}
		scope := suite.Named(gpipe.ParseScope, r.Scope)
		switch cores := r.cores(); {
		case cores < 2:
			return suite.At(errors.New("want two cores or more"), append(path, "torus")...)
		case i > 0 && cores <= s.Spec.Runs[i-1].cores():
			return suite.At(errors.New("want more cores than the one before"), append(path, "torus")...)
		case r.Batch%cores != 0:
			return suite.At(fmt.Errorf("%d examples on %d cores: want as many on each", r.Batch, cores), append(path, "batch")...)
		case scope > 1 && cores%int(scope) != 0:
			return suite.At(fmt.Errorf("batch norm over %v of %d cores: want a number that divides them", scope, cores), append(path, "bn_scope")...)
		case !(r.Epochs.Value > 0) || !(r.Seconds.Value > 0):
			return suite.At(errors.New("want epochs and seconds above 0"), path...)
		}
	}
	for _, name := range suite.Profiles {
		if p, err := suite.ProfileOf(s.Spec.Profiles, name); err == nil && p.Most > len(s.Spec.Runs) {
			return suite.At(fmt.Errorf("want at most %d, the number of runs", len(s.Spec.Runs)), "profiles", name, "most")
		}
	}
	return nil
}

func (s *seconds) Planned(string) []suite.PlannedRun {
	return []suite.PlannedRun{{Path: []string{"model"}, Run: suite.ModelledRun{Model: s.Spec.Model, Most: 1}}}
}

// runs are those of a profile.
func (s *seconds) runs(name string) ([]run, error) {
	p, err := suite.ProfileOf(s.Spec.Profiles, name)
	return s.Spec.Runs[:min(p.Most, len(s.Spec.Runs))], err
}

// sample is a step. Nothing in it depends on the machine.
type sample struct {
	Seconds float64 `json:"seconds"`
	Reduce  float64 `json:"all_reduce_seconds"`
	Update  float64 `json:"update_seconds"`
	Fits    bool    `json:"fits"`
}

func (s *seconds) name(r run) string {
	return suite.AtRates(fmt.Sprintf("cores=%d", r.cores()), s.Spec.Accelerator, nil)
}

func (s *seconds) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	runs, err := s.runs(log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []suite.Job
	for _, r := range runs {
		jobs = append(jobs, suite.Job{Sample: s.name(r), Make: func(ctx context.Context) (any, string, error) {
			made, err := s.simulate(ctx, r)
			return made, s.name(r), err
		}})
	}
	return suite.MakeMissing(ctx, s.ID(), log, p, jobs)
}

func (s *seconds) simulate(ctx context.Context, r run) (*sample, error) {
	made, err := simulation.Simulating{
		Model: s.Spec.Model, Accelerator: s.Spec.Accelerator, Batch: r.Batch, Optimizer: s.Spec.Optimizer, DType: suite.Named(workload.ParseDType, s.Spec.DType),
		AllReduce: suite.Named(reduction.ParseKind, s.Spec.AllReduce), Torus: [2]int{r.Torus.X, r.Torus.Y}, Accounting: gpipe.FullAccounting,
		Setup: workload.Setup{
			Partitions: 1, MicroBatches: 1, Replicas: r.cores(), BNScope: suite.Named(gpipe.ParseScope, r.Scope), ShardUpdate: true,
			Schedule: schedule.GPipe, Checkpoint: schedule.Never,
		},
	}.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", s.ID(), s.name(r), err)
	}
	return &sample{Seconds: made.StepSeconds, Reduce: made.ReduceSeconds, Update: made.UpdateSeconds, Fits: made.Fits}, nil
}

// printed lists what the paper prints and what was found.
func (s *seconds) printed() *suite.Table {
	t := &suite.Table{ID: s.ID() + "-printed", Title: "The paper's text beside logs, programs and figures"}
	t.Texts("id", "what")
	t.Numbers("printed", "found")
	t.Texts("in")
	for _, p := range s.Spec.Printed {
		t.Add(p.ID, p.What, suite.Value{Text: p.Printed.Text, Numbers: []float64{p.Printed.Value}}, suite.Value{Text: p.Found.Text, Numbers: []float64{p.Found.Value}}, p.In)
	}
	return t
}

func (s *seconds) Report(log, _ *records.Log) (*suite.Report, error) {
	runs, err := s.runs(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	t := &suite.Table{ID: s.ID(), Title: s.Title(), Caption: []string{
		fmt.Sprintf("%v with %s on modelled cores (%s), %s activations, all-reduce %s, updates divided, nothing recomputed. Modelled: the steps alone. Logged: the whole benchmark, with evaluations.", s.Spec.Model, s.Spec.Optimizer, s.Spec.Accelerator, s.Spec.DType, s.Spec.AllReduce),
	}}
	t.Numbers("cores", "mini-batch", "examples a core", "epochs", "steps", "step", "all-reduce", "update", "modelled s", "logged s", "modelled / logged", "logged s a step")
	unfit := false
	for _, r := range runs {
		var of sample
		if err := log.Get(s.name(r), &of); err != nil {
			return nil, err
		}
		unfit = unfit || !of.Fits
		steps := r.steps(s.Spec.Images)
		t.Add(r.cores(), r.Batch, r.Batch/r.cores(), suite.Value{Text: r.Epochs.Text, Numbers: []float64{r.Epochs.Value}}, suite.Number("%.0f", steps),
			suite.Seconds(of.Seconds), suite.Percent(of.Reduce/of.Seconds, 1), suite.Percent(of.Update/of.Seconds, 2),
			suite.Fixed(steps*of.Seconds, 1), suite.Fixed(r.Seconds.Value, 1), suite.Fixed(steps*of.Seconds/r.Seconds.Value, 3), suite.Seconds(r.Seconds.Value/steps))
	}
	if unfit {
		t.Notes = append(t.Notes, "Some steps do not fit a core's memory.")
	}
	rep := &suite.Report{Tables: []*suite.Table{t, s.printed()}}
	if len(runs) < 2 {
		return rep, nil
	}
	p := &plot.LinePanel{Title: "benchmark seconds", X: "cores", Y: "seconds", Logarithmic: true}
	var modelled, logged []plot.Point
	for i, row := range t.Rows {
		p.Names = append(p.Names, row[0].Text)
		modelled = append(modelled, plot.Point{X: float64(i), Y: row[t.Column("modelled s")].Numbers[0]})
		logged = append(logged, plot.Point{X: float64(i), Y: row[t.Column("logged s")].Numbers[0]})
	}
	p.Series = []plot.Series{{Name: "modelled", Lines: [][]plot.Point{modelled}}, {Name: "logged", Lines: [][]plot.Point{logged}, Dashed: true}}
	rep.Files, err = plot.Files(s.ID(), s.Title(), []plot.Axes{p})
	return rep, err
}
