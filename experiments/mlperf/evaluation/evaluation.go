// Package evaluation models the share of evaluations in a training, divided over the cores
// that train and on one of them.
package evaluation

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/simulate"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "distributed-evaluation", Folder: folder, New: lab.New[evaluation], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	Accelerator string      `yaml:"accelerator" want:"accelerator"`
	DType       string      `yaml:"dtype" want:"dtype"`
	AllReduce   string      `yaml:"all_reduce" want:"all-reduce"`
	Model       train.Model `yaml:"model"`
	Optimizer   string      `yaml:"optimizer" want:"optimizer"`
	Images      int         `yaml:"images" want:"1..1000000000"` // of an epoch
	HeldOut     int         `yaml:"held_out" want:"1..1000000000"`
	Every       int         `yaml:"every" want:"1..1000"`  // epochs
	Alone       int         `yaml:"alone" want:"1..65536"` // images of a mini-batch of a core that evaluates by itself
	Card        int         `yaml:"card" want:"1..65536"`  // cores
	Runs        []run       `yaml:"runs"`

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
	Expected lab.Span `yaml:"expected" want:"shown"`
	Most     int      `yaml:"most" want:"1..64"` // how many of the runs
}

// evaluation simulates a step of each run, and forward passes of a core by itself.
type evaluation struct {
	lab.Base[spec]
}

func (e *evaluation) Resolve() *lab.Problem {
	if len(e.Spec.Runs) == 0 {
		return lab.At(errors.New("want at least one"), "runs")
	}
	for i, r := range e.Spec.Runs {
		path := []string{"runs", fmt.Sprint(i)}
		scope := lab.Named(gpipe.ParseScope, r.Scope)
		switch cores := r.cores(); {
		case cores < 2:
			return lab.At(errors.New("want two cores or more"), append(path, "torus")...)
		case i > 0 && cores <= e.Spec.Runs[i-1].cores():
			return lab.At(errors.New("want more cores than the one before"), append(path, "torus")...)
		case r.Batch%cores != 0:
			return lab.At(fmt.Errorf("%d examples on %d cores: want as many on each", r.Batch, cores), append(path, "batch")...)
		case scope > 1 && cores%int(scope) != 0:
			return lab.At(fmt.Errorf("batch norm over %v of %d cores: want a number that divides them", scope, cores), append(path, "bn_scope")...)
		}
	}
	for _, name := range lab.Profiles {
		if p, err := lab.ProfileOf(e.Spec.Profiles, name); err == nil && p.Most > len(e.Spec.Runs) {
			return lab.At(fmt.Errorf("want at most %d, the number of runs", len(e.Spec.Runs)), "profiles", name, "most")
		}
	}
	return nil
}

func (e *evaluation) Planned(string) []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"model"}, Run: lab.ModelledRun{Model: e.Spec.Model, Most: 1}}}
}

// runs are those of a profile.
func (e *evaluation) runs(name string) ([]run, error) {
	p, err := lab.ProfileOf(e.Spec.Profiles, name)
	return e.Spec.Runs[:min(p.Most, len(e.Spec.Runs))], err
}

// sample is a step, or one of a core by itself. Nothing in it depends on the machine.
type sample struct {
	Seconds float64 `json:"seconds"`
	Forward float64 `json:"forward_seconds"`
}

func (e *evaluation) name(what string) string { return lab.AtRates(what, e.Spec.Accelerator, nil) }

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
	var jobs []lab.Job
	add := func(name string, s simulate.Simulating) {
		jobs = append(jobs, lab.Job{Sample: name, Make: func(ctx context.Context) (any, string, error) {
			made, err := e.simulate(ctx, name, s)
			return made, name, err
		}})
	}
	for _, r := range runs {
		add(e.step(r), simulate.Simulating{
			Batch: r.Batch, Torus: [2]int{r.Torus.X, r.Torus.Y},
			Setup: train.Setup{Replicas: r.cores(), BNScope: lab.Named(gpipe.ParseScope, r.Scope), ShardUpdate: true},
		})
		add(e.alone(r.examples()), simulate.Simulating{Batch: r.examples(), Setup: train.Setup{Replicas: 1}})
	}
	add(e.alone(e.Spec.Alone), simulate.Simulating{Batch: e.Spec.Alone, Setup: train.Setup{Replicas: 1}})
	return lab.MakeMissing(ctx, e.ID(), log, p, jobs)
}

func (e *evaluation) simulate(ctx context.Context, name string, s simulate.Simulating) (*sample, error) {
	s.Model, s.Accelerator, s.Optimizer, s.DType = e.Spec.Model, e.Spec.Accelerator, e.Spec.Optimizer, lab.Named(train.ParseDType, e.Spec.DType)
	s.AllReduce, s.Accounting = lab.Named(reduction.ParseKind, e.Spec.AllReduce), gpipe.FullAccounting
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

func (e *evaluation) Report(log, _ *records.Log) (*lab.Report, error) {
	runs, err := e.runs(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	s := &e.Spec
	t := &lab.Table{ID: e.ID(), Title: e.Title(), Caption: []string{
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
		t.Add(r.cores(), r.Batch, lab.Number("%.0f", steps), lab.Seconds(training),
			lab.Seconds(all), e.batches(r.Batch)*r.Batch-s.HeldOut, lab.Percent(all/(training+all), 1),
			lab.Seconds(one), lab.Percent(one/(training+one), 1), lab.Seconds(card), lab.Fixed(card/training, 3))
	}
	rep := &lab.Report{Tables: []*lab.Table{t}}
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
