// Package measured times evaluations and steps on emulated replicas.
package measured

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "evaluation-measured", Folder: folder, New: lab.New[measured], Command: "distributed-evaluation"}

// spec is spec.yaml.
type spec struct {
	lab.Head  `yaml:",inline"`
	Optimizer string             `yaml:"optimizer" want:"optimizer"`
	LR        float64            `yaml:"lr" want:">0.."`
	Replicas  []int              `yaml:"replicas" want:"1..64"`
	Profiles  map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected lab.Span    `yaml:"expected" want:"shown"`
	Model    train.Model `yaml:"model"`
	Batch    int         `yaml:"batch" want:"1..65536"`
	HeldOut  int         `yaml:"held_out" want:"1..1048576"`
	Every    int         `yaml:"every" want:"1..1000000"` // steps
	Rounds   int         `yaml:"rounds" want:"1..1000"`
	Steps    int         `yaml:"steps" want:"1..1000"` // that are timed in a round
}

// measured trains and evaluates.
type measured struct {
	lab.Base[spec]
}

func (x *measured) Resolve() *lab.Problem {
	r := x.Spec.Replicas
	if r[0] != 1 || !slices.IsSorted(r) || len(r) < 2 {
		return lab.At(errors.New("want 1 first, then others in ascending order"), "replicas")
	}
	most := slices.Max(r)
	for _, n := range r {
		if each := most / n; most%n != 0 || n > 1 && each&(each-1) != 0 {
			return lab.At(fmt.Errorf("%d replicas of %d groups: want each to have a power of two of them", n, most), "replicas")
		}
	}
	for _, name := range lab.Profiles {
		p := x.Spec.Profiles[name]
		if p.Batch%most != 0 {
			return lab.At(fmt.Errorf("%d examples in %d groups: want as many in each", p.Batch, most), "profiles", name, "batch")
		}
		for _, n := range r[1:] {
			if p.HeldOut%n == 0 {
				return lab.At(fmt.Errorf("%d images on %d replicas: want a number that none of them divides", p.HeldOut, n), "profiles", name, "held_out")
			}
		}
	}
	return nil
}

// training is a profile's on so many replicas.
func (x *measured) training(p profile, r int) train.Training {
	return train.Training{
		Model: p.Model, Data: "synthetic", Batch: p.Batch, Steps: p.Steps + 1, Seed: x.Spec.Seed,
		Optimizer: x.Spec.Optimizer, LR: x.Spec.LR, LRSchedule: "constant",
		Config: datasets.Config{SyntheticImages: datasets.SyntheticImagesConfig{Train: p.Batch, HeldOut: p.HeldOut}},
		Setup: train.Setup{
			Partitions: 1, MicroBatches: 1, Replicas: r, Groups: slices.Max(x.Spec.Replicas),
			Checkpoint: schedule.Never, Device: gpipe.Emulated, Threads: 1,
		},
	}
}

func (x *measured) Planned(profile string) (list []lab.PlannedRun) {
	for _, r := range x.Spec.Replicas {
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile}, Run: x.training(x.Spec.Profiles[profile], r)})
	}
	return list
}

// Record is a training's steps and its evaluation behind them.
type Record struct {
	Step     float64 `json:"step_seconds"`       // on the devices' clock, every kind of task at its median
	Evaluate float64 `json:"evaluation_seconds"` // the same, of all that is held out
	Padded   int     `json:"padded_examples"`
	Targets  int     `json:"targets"`
	Loss     float64 `json:"loss"`
	Correct  int     `json:"correct"`
	Others   float64 `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// Check requires times above 0, and targets.
func (r *Record) Check() error {
	if r.Step <= 0 || r.Evaluate <= 0 {
		return fmt.Errorf("a step of %v s and an evaluation of %v s: want times above 0", r.Step, r.Evaluate)
	}
	if r.Targets < 1 || r.Padded < 0 || r.Correct > r.Targets {
		return fmt.Errorf("%d of %d targets are right, %d examples are padded", r.Correct, r.Targets, r.Padded)
	}
	return nil
}

func name(r, round int) string { return fmt.Sprintf("R=%d/round=%d", r, round) }

// repeated is what a profile's rounds repeat.
type repeated struct {
	*measured
	profile
}

func (x *measured) Repeated(name string) (timed.Repeated, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, name)
	return x.settings(p), err
}

// settings are a profile's rounds.
func (x *measured) settings(p profile) timed.Settings {
	r := repeated{x, p}
	return timed.Settings{
		ID: x.ID(), Rounds: p.Rounds, All: x.Spec.Replicas, Seed: x.Spec.Seed, Name: name,
		Measure: func(ctx context.Context, replicas int) (any, error) { return r.measure(ctx, replicas) },
	}
}

// measure trains and evaluates on so many replicas.
func (r repeated) measure(ctx context.Context, replicas int) (*Record, error) {
	t := r.training(r.profile, replicas)
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if _, err := l.Step(ctx); err != nil { // makes programs, and touches memory for the first time
		return nil, err
	}
	if _, _, err := r.evaluate(ctx, &t, l); err != nil {
		return nil, err
	}
	meter := machine.StartMeter()
	var steps gpipe.Samples
	for range r.Steps {
		step, err := l.Step(ctx)
		if err != nil {
			return nil, err
		}
		steps.Add(step.Times)
	}
	parts, err := steps.Median().Breakdown()
	if err != nil {
		return nil, err
	}
	var made *Record
	var all []*gpipe.Times
	for range r.Steps {
		again, times, err := r.evaluate(ctx, &t, l)
		if err != nil {
			return nil, err
		}
		if made != nil && !again.sameOutcome(made) {
			return nil, errors.New("an evaluation that is repeated comes to something else")
		}
		made, all = again, append(all, times...)
	}
	made.Step, made.Evaluate, made.Others = parts.Step, passes(all)/float64(r.Steps), meter.Others()
	return made, nil
}

// passes is the time of evaluations on the devices' clock, in which a pass of each size takes
// the median of its repeats. A replica is one device here, whose passes follow each other;
// replicas begin at the same time, and none waits for another but in the end.
func passes(all []*gpipe.Times) (seconds float64) {
	bySize := map[int][]float64{}
	each := func(t *gpipe.Times, replica int, f func(size int, seconds float64)) {
		for micro, size := range t.Examples[replica] {
			f(size, t.Stages[replica].F[micro])
		}
	}
	for _, t := range all {
		for replica := range t.Stages {
			each(t, replica, func(size int, s float64) { bySize[size] = append(bySize[size], s) })
		}
	}
	for _, t := range all {
		longest := 0.0
		for replica := range t.Stages {
			own := 0.0
			each(t, replica, func(size int, _ float64) { own += stats.Median(bySize[size]) })
			longest = max(longest, own)
		}
		seconds += longest
	}
	return seconds
}

// evaluate evaluates what is held out, as a training does, and returns the outcome and each
// mini-batch's times.
func (r repeated) evaluate(ctx context.Context, t *train.Training, l *train.Loop) (*Record, []*gpipe.Times, error) {
	made := &Record{}
	var all []*gpipe.Times
	for i := range l.Source.Batches(datasets.HeldOut, t.Batch) {
		b, err := l.Source.Batch(datasets.HeldOut, i, t.Batch)
		if err != nil {
			return nil, nil, err
		}
		padded := t.Padded(b)
		res, err := l.Trainer.Evaluate(ctx, padded)
		if err != nil {
			return nil, nil, err
		}
		made.Padded += padded.Examples() - b.Examples()
		made.Targets += res.Count
		made.Correct += res.Correct
		made.Loss += res.Loss * float64(res.Count)
		all = append(all, res.Times)
	}
	return made, all, nil
}

func (x *measured) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return timed.Measure(ctx, x, log, p)
}

// results are what a log has of a number of replicas, by round.
type results struct {
	training []float64 // seconds from one evaluation to the next
	evaluate []float64
	first    Record
	same     bool // all rounds have the same outcome
}

func (x *measured) results(log *records.Log, p profile) (map[int]*results, error) {
	all := map[int]*results{}
	for _, r := range x.Spec.Replicas {
		of := &results{same: true}
		for round := range p.Rounds {
			var rec Record
			if err := log.Get(name(r, round), &rec); err != nil {
				return nil, err
			}
			if round == 0 {
				of.first = rec
			}
			of.same = of.same && rec.sameOutcome(&of.first)
			of.training = append(of.training, float64(p.Every)*rec.Step)
			of.evaluate = append(of.evaluate, rec.Evaluate)
		}
		all[r] = of
	}
	return all, nil
}

// sameOutcome compares what two evaluations found, to the bit.
func (r *Record) sameOutcome(other *Record) bool {
	return r.Loss == other.Loss && r.Correct == other.Correct && r.Targets == other.Targets
}

// shares are those of an evaluation in the time with the training before it, by round.
func shares(evaluate, training []float64) (all []float64) {
	for i, e := range evaluate {
		all = append(all, e/(training[i]+e))
	}
	return all
}

func (x *measured) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := x.results(log, p)
	if err != nil {
		return nil, err
	}
	var before map[int]*results
	if reference != nil {
		of, err := lab.ProfileOf(x.Spec.Profiles, reference.Key.Profile)
		if err != nil {
			return nil, err
		}
		if before, err = x.results(reference, of); err != nil {
			return nil, err
		}
	}
	one := all[1]
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("Measured as %v with %s, a mini-batch of %d in %d groups, K = 1, nothing recomputed, one thread a device; no links. Training: %d steps, as long as those that are timed. Evaluation: of %d images, padded with so many of zeros.",
			p.Model, x.Spec.Optimizer, p.Batch, slices.Max(x.Spec.Replicas), p.Every, p.HeldOut),
		timed.EmulatedCaption(p.Rounds, "row"),
		"All: every replica evaluates its part. One: a replica evaluates everything, in the time that it takes with R = 1, and the others wait. Shares are those of evaluations in the time of both. Amdahl: the share on one if the training of R = 1 took an Rth of its time. Run, one / all: the time of both with the evaluation on one over that with it on all.",
	}}
	t.Numbers("R", "padded", "measured training", "95%, training", "measured evaluation", "95%, evaluation", "measured speedup", "95%, speedup",
		"measured share, all", "95%, share, all", "measured share, one", "95%, share, one", "Amdahl, one", "measured run, one / all", "95%, run")
	t.Texts("same bits")
	if reference != nil {
		t.Numbers("share, all, "+lab.ReferenceName(log, reference), "share, one, "+lab.ReferenceName(log, reference))
	}
	percent := func(s float64) lab.Value { return lab.Percent(s, 1) }
	var other []int
	for _, r := range x.Spec.Replicas {
		of := all[r]
		same := of.same && of.first.sameOutcome(&one.first)
		if !same {
			other = append(other, r)
		}
		single, together := make([]float64, p.Rounds), make([]float64, p.Rounds)
		for i := range single {
			single[i], together[i] = of.training[i]+one.evaluate[i], of.training[i]+of.evaluate[i]
		}
		ideal := stats.Median(one.training) / float64(r)
		row := []any{
			r, of.first.Padded, lab.Median(of.training, lab.Seconds), lab.Median(of.evaluate, lab.Seconds), lab.Ratio(stats.RatioOf(one.evaluate, of.evaluate), r == 1),
			lab.Median(shares(of.evaluate, of.training), percent), lab.Median(shares(one.evaluate, of.training), percent),
			percent(stats.Median(one.evaluate) / (ideal + stats.Median(one.evaluate))), lab.Ratio(stats.RatioOf(single, together), r == 1), lab.YesOrNo(same),
		}
		if reference != nil {
			b := before[r]
			row = append(row, percent(stats.Median(shares(b.evaluate, b.training))), percent(stats.Median(shares(before[1].evaluate, b.training))))
		}
		t.Add(row...)
	}
	t.Notes = append(lab.FewRoundsNote(p.Rounds), timed.ProcessNote(x.settings(p), log))
	if reference != nil {
		t.Notes = append(t.Notes, lab.ReferenceNote(reference))
	}
	rep := &lab.Report{Tables: []*lab.Table{t}}
	if len(other) > 0 {
		rep.Verdict = fmt.Errorf("%s: evaluations on %s replicas have OTHER bits than on one", x.ID(), lab.JoinWith(other, ", "))
	}
	bars := &plot.BarPanel{Title: "evaluations", Y: "% of the time"}
	for _, r := range x.Spec.Replicas {
		bars.Names = append(bars.Names, fmt.Sprintf("R = %d", r))
	}
	for _, how := range []string{"all", "one"} {
		series := plot.BarSeries{Name: "on " + how}
		for _, row := range t.Rows {
			series.AddValue(row[t.Column("measured share, "+how)])
		}
		bars.Series = append(bars.Series, series)
	}
	rep.Files, err = plot.Files(x.ID(), x.Title(), []plot.Axes{bars})
	return rep, err
}
