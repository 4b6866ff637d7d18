// Package evaluation models the share of evaluations in a training, divided over the cores
// that train and on one of them.
package evaluation

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
	"gpipebench/gpipe/timeline"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "distributed-evaluation", Folder: folder, New: suite.New[evaluation], Untimed: true}

// spec is spec.yaml.
type spec struct {
	suite.Head  `yaml:",inline"`
	Accelerator string         `yaml:"accelerator" want:"accelerator"`
	DType       string         `yaml:"dtype" want:"dtype"`
	AllReduce   string         `yaml:"all_reduce" want:"all-reduce"`
	Model       workload.Model `yaml:"model"`
	Optimizer   string         `yaml:"optimizer" want:"optimizer"`
	Images      int            `yaml:"images" want:"1..1000000000"` // of an epoch
	HeldOut     int            `yaml:"held_out" want:"1..1000000000"`
	Every       int            `yaml:"every" want:"1..1000"`  // epochs
	Alone       int            `yaml:"alone" want:"1..65536"` // images of a mini-batch of a core that evaluates by itself
	Card        int            `yaml:"card" want:"1..65536"`  // cores
	Runs        []run          `yaml:"runs"`

	Profiles map[string]profile `yaml:"profiles"`
}

// run is a training on a number of cores.
type run struct {
	Torus struct { // of cores
		X int `yaml:"x" want:"1..256"`
		Y int `yaml:"y" want:"1..256"`
	} `yaml:"torus"`
	Batch int    `yaml:"batch" want:"1..16777216"`
	Scope string `yaml:"bn_scope" want:"scope,optional"`
}

func (r run) cores() int { return r.Torus.X * r.Torus.Y }

// examples are those of a core.
func (r run) examples() int { return r.Batch / r.cores() }

type profile struct {
	Expected suite.Span `yaml:"expected" want:"shown"`
	Most     int        `yaml:"most" want:"1..64"` // how many of the runs
}

// evaluation simulates a step of each run, and forward passes of a core by itself.
type evaluation struct {
	suite.Base[spec]
}

func (e *evaluation) Resolve() *suite.Problem {
	if len(e.Spec.Runs) == 0 {
		return suite.At(errors.New("want at least one"), "runs")
	}
	for i, r := range e.Spec.Runs {
		path := []string{"runs", fmt.Sprint(i)}
		scope := suite.Named(gpipe.ParseScope, r.Scope)
		switch cores := r.cores(); {
		case cores < 2:
			return suite.At(errors.New("want two cores or more"), append(path, "torus")...)
		case i > 0 && cores <= e.Spec.Runs[i-1].cores():
			return suite.At(errors.New("want more cores than the one before"), append(path, "torus")...)
		case r.Batch%cores != 0:
			return suite.At(fmt.Errorf("%d examples on %d cores: want as many on each", r.Batch, cores), append(path, "batch")...)
		case scope > 1 && cores%int(scope) != 0:
			return suite.At(fmt.Errorf("batch norm over %v of %d cores: want a number that divides them", scope, cores), append(path, "bn_scope")...)
		}
	}
	for _, name := range suite.Profiles {
		if p, err := suite.ProfileOf(e.Spec.Profiles, name); err == nil && p.Most > len(e.Spec.Runs) {
			return suite.At(fmt.Errorf("want at most %d, the number of runs", len(e.Spec.Runs)), "profiles", name, "most")
		}
	}
	return nil
}

func (e *evaluation) Planned(string) []suite.PlannedRun {
	return []suite.PlannedRun{{Path: []string{"model"}, Run: suite.ModelledRun{Model: e.Spec.Model, Most: 1}}}
}

// runs are those of a profile.
func (e *evaluation) runs(name string) ([]run, error) {
	p, err := suite.ProfileOf(e.Spec.Profiles, name)
	return e.Spec.Runs[:min(p.Most, len(e.Spec.Runs))], err
}

// sample is a step, or one of a core by itself. Nothing in it depends on the machine.
type sample struct {
	Seconds float64 `json:"seconds"`
	Forward float64 `json:"forward_seconds"`
}

func (e *evaluation) name(what string) string { return suite.AtRates(what, e.Spec.Accelerator, nil) }

// step and alone name the samples of a run's step, and of one core's with so many images.
func (e *evaluation) step(r run) string { return e.name(fmt.Sprintf("cores=%d", r.cores())) }
func (e *evaluation) alone(examples int) string {
	return e.name(fmt.Sprintf("alone/examples=%d", examples))
}

func (e *evaluation) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	runs, err := e.runs(log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []suite.Job
	add := func(name string, s simulation.Simulating) {
		jobs = append(jobs, suite.Job{Sample: name, Make: func(ctx context.Context) (any, string, error) {
			made, err := e.simulate(ctx, name, s)
			return made, name, err
		}})
	}
	for _, r := range runs {
		add(e.step(r), simulation.Simulating{
			Batch: r.Batch, Torus: [2]int{r.Torus.X, r.Torus.Y},
			Setup: workload.Setup{Replicas: r.cores(), BNScope: suite.Named(gpipe.ParseScope, r.Scope), ShardUpdate: true},
		})
		add(e.alone(r.examples()), simulation.Simulating{Batch: r.examples(), Setup: workload.Setup{Replicas: 1}})
	}
	add(e.alone(e.Spec.Alone), simulation.Simulating{Batch: e.Spec.Alone, Setup: workload.Setup{Replicas: 1}})
	return suite.MakeMissing(ctx, e.ID(), log, p, jobs)
}

func (e *evaluation) simulate(ctx context.Context, name string, s simulation.Simulating) (*sample, error) {
	s.Model, s.Accelerator, s.Optimizer, s.DType = e.Spec.Model, e.Spec.Accelerator, e.Spec.Optimizer, suite.Named(workload.ParseDType, e.Spec.DType)
	s.AllReduce, s.Accounting = suite.Named(reduction.ParseKind, e.Spec.AllReduce), gpipe.FullAccounting
	s.Setup.Partitions, s.Setup.MicroBatches, s.Setup.Schedule, s.Setup.Checkpoint = 1, 1, schedule.GPipe, schedule.Never
	if s.Setup.Replicas == 1 {
		s.Torus = [2]int{1, 1}
	}
	made, err := s.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", e.ID(), name, err)
	}
	of := &sample{Seconds: made.StepSeconds}
	for _, event := range made.Step.Timeline.Events {
		if event.Kind == timeline.Forward && event.At.Replica == 0 {
			of.Forward += event.End - event.Start
		}
	}
	return of, nil
}

// batches are the mini-batches of so many images that hold what is held out.
func (e *evaluation) batches(images int) int { return (e.Spec.HeldOut + images - 1) / images }

func (e *evaluation) Report(log, _ *records.Log) (*suite.Report, error) {
	runs, err := e.runs(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	s := &e.Spec
	t := &suite.Table{ID: e.ID(), Title: e.Title(), Caption: []string{
		fmt.Sprintf("%v with %s on modelled cores (%s), %s activations, all-reduce %s, updates divided, nothing recomputed. Training: the steps of %d epochs of %d images. Evaluation: forward passes of %d images.",
			s.Model, s.Optimizer, s.Accelerator, s.DType, s.AllReduce, s.Every, s.Images, s.HeldOut),
		fmt.Sprintf("All cores: each evaluates as many images at a time as it trains on; padded: with so many images of zeros behind the others. One core: it evaluates %d images at a time, and the others wait. Shares are those of evaluations in the time of both. Card: %d cores evaluate beside the training, which hides them if they take less time.", s.Alone, s.Card),
	}}
	t.Numbers("cores", "mini-batch", "steps", "training", "all cores", "padded", "share, all cores", "one core", "share, one core", "card", "card / training")
	var alone sample
	if err := log.Get(e.alone(s.Alone), &alone); err != nil {
		return nil, err
	}
	for _, r := range runs {
		var step, forward sample
		if err := log.Get(e.step(r), &step); err != nil {
			return nil, err
		}
		if err := log.Get(e.alone(r.examples()), &forward); err != nil {
			return nil, err
		}
		steps := float64(s.Every) * float64(s.Images) / float64(r.Batch)
		training := steps * step.Seconds
		all := float64(e.batches(r.Batch)) * forward.Forward
		one := float64(e.batches(s.Alone)) * alone.Forward
		card := float64(e.batches(s.Card*s.Alone)) * alone.Forward
		t.Add(r.cores(), r.Batch, suite.Number("%.0f", steps), suite.Seconds(training),
			suite.Seconds(all), e.batches(r.Batch)*r.Batch-s.HeldOut, suite.Percent(all/(training+all), 1),
			suite.Seconds(one), suite.Percent(one/(training+one), 1), suite.Seconds(card), suite.Fixed(card/training, 3))
	}
	rep := &suite.Report{Tables: []*suite.Table{t}}
	if len(runs) < 2 {
		return rep, nil
	}
	p := &plot.LinePanel{Title: "evaluations", X: "cores", Y: "% of the time", FromZero: true}
	for _, column := range []string{"share, all cores", "share, one core"} {
		var points []plot.Point
		for i, row := range t.Rows {
			if len(p.Names) < len(t.Rows) {
				p.Names = append(p.Names, row[0].Text)
			}
			points = append(points, plot.Point{X: float64(i), Y: row[t.Column(column)].Numbers[0]})
		}
		p.Series = append(p.Series, plot.Series{Name: column[len("share, "):], Lines: [][]plot.Point{points}})
	}
	rep.Files, err = plot.Files(e.ID(), e.Title(), []plot.Axes{p})
	return rep, err
}
