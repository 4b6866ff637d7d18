// Package emulated times steps of a network whose images are divided over emulated parts.
package emulated

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
	"gpipebench/nn/program"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "spatial-emulated", Folder: folder, New: lab.New[emulated], Command: "spatial-partitioning"}

// spec is spec.yaml.
type spec struct {
	lab.Head  `yaml:",inline"`
	Optimizer string             `yaml:"optimizer" want:"optimizer"`
	LR        float64            `yaml:"lr" want:">0.."`
	Parts     []int              `yaml:"parts" want:"1..64"`
	Paper     lab.Verbatim       `yaml:"paper"` // speedup on the most parts
	Profiles  map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected lab.Span    `yaml:"expected" want:"shown"`
	Model    train.Model `yaml:"model"`
	Examples int         `yaml:"examples" want:"1..65536"`
	Rounds   int         `yaml:"rounds" want:"1..1000"`
	Steps    int         `yaml:"steps" want:"1..1000"` // that are timed in a round
}

// emulated trains.
type emulated struct {
	lab.Base[spec]
}

func (x *emulated) Resolve() *lab.Problem {
	if p := x.Spec.Parts; len(p) < 2 || p[0] != 1 || !slices.IsSorted(p) {
		return lab.At(errors.New("want 1 and more, in ascending order"), "parts")
	}
	return nil
}

// training is a profile's on so many parts.
func (x *emulated) training(p profile, parts int) train.Training {
	return train.Training{
		Model: p.Model, Data: "synthetic", Batch: p.Examples, Steps: p.Steps + 1, Seed: x.Spec.Seed,
		Optimizer: x.Spec.Optimizer, LR: x.Spec.LR, LRSchedule: "constant",
		Config: datasets.Config{SyntheticImages: datasets.SyntheticImagesConfig{Train: p.Examples, HeldOut: 1}},
		Setup: train.Setup{
			Partitions: 1, MicroBatches: 1, Spatial: parts, Checkpoint: schedule.Never, Device: gpipe.Emulated, Threads: 1,
		},
	}
}

func (x *emulated) Planned(profile string) (list []lab.PlannedRun) {
	for _, parts := range x.Spec.Parts {
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile}, Run: x.training(x.Spec.Profiles[profile], parts)})
	}
	return list
}

// Record is a training's steps.
type Record struct {
	Step    float64 `json:"step_seconds"`   // on the device's clock, every kind of task at its median
	Kernels float64 `json:"kernel_seconds"` // of it, of all instructions, each at its median
	// Work is the same by what the parts do, nil of one part.
	Work   map[string]Work `json:"work,omitempty"`
	Loss   float64         `json:"loss"` // of the last step
	SHA256 string          `json:"sha256"`
	Others float64         `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// Work is the time of instructions at which parts do the same, in seconds.
type Work struct {
	Seconds float64 `json:"seconds"` // on the device's clock
	Slowest float64 `json:"slowest"` // of each instruction the part that took longest
	All     float64 `json:"all"`     // of all parts
}

// Check requires times above 0, and parts that took what can be.
func (r *Record) Check() error {
	if !(r.Step > 0) || !(r.Kernels > 0) {
		return fmt.Errorf("a step of %v s, %v s of kernels: want times above 0", r.Step, r.Kernels)
	}
	for of, w := range r.Work {
		if !(w.Slowest >= 0) || !(w.All >= w.Slowest) || !(w.Seconds >= 0) {
			return fmt.Errorf("%s: %v s, of all parts %v, of the slowest %v", of, w.Seconds, w.All, w.Slowest)
		}
	}
	return nil
}

func name(parts, round int) string { return fmt.Sprintf("parts=%d/round=%d", parts, round) }

// repeated is what a profile's rounds repeat.
type repeated struct {
	*emulated
	profile
}

func (x *emulated) Repeated(name string) (timed.Repeated, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, name)
	return x.settings(p), err
}

func (x *emulated) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return timed.Measure(ctx, x, log, p)
}

// settings are a profile's rounds.
func (x *emulated) settings(p profile) timed.Settings {
	r := repeated{x, p}
	return timed.Settings{
		ID: x.ID(), Rounds: p.Rounds, All: x.Spec.Parts, Seed: x.Spec.Seed, Name: name,
		Measure: func(ctx context.Context, parts int) (any, error) { return r.measure(ctx, parts) },
	}
}

// measure trains on so many parts.
func (r repeated) measure(ctx context.Context, parts int) (*Record, error) {
	t := r.training(r.profile, parts)
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if _, err := l.Step(ctx); err != nil { // makes programs, and touches memory for the first time
		return nil, err
	}
	var ran instructions
	l.Trainer.Watch(ran.add)
	meter := machine.StartMeter()
	made := &Record{}
	var steps gpipe.Samples
	for range r.Steps {
		step, err := l.Step(ctx)
		if err != nil {
			return nil, err
		}
		steps.Add(step.Times)
		made.Loss = step.Loss
	}
	l.Trainer.Watch(nil)
	parted, err := steps.Median().Breakdown()
	if err != nil {
		return nil, err
	}
	made.Step, made.SHA256, made.Others = parted.Step, l.Trainer.Hash(), meter.Others()
	made.Kernels, made.Work = ran.medians()
	return made, nil
}

// instructions are the times of each instruction of a training's steps, in the order in which
// they first ran.
type instructions struct {
	index map[instruction]int
	times []*times
}

// instruction is one of a task's program. With one micro-batch each runs once a step.
type instruction struct {
	task schedule.Kind
	*program.Instr
}

type times struct {
	program.Division
	seconds []float64
	parts   [][]float64 // of each part
}

func (all *instructions) add(run gpipe.KernelRun) {
	key := instruction{run.Task, run.Instr}
	i, is := all.index[key]
	if !is {
		if all.index == nil {
			all.index = map[instruction]int{}
		}
		i = len(all.times)
		all.index[key] = i
		all.times = append(all.times, &times{Division: run.Instr.Division, parts: make([][]float64, len(run.Parts))})
	}
	of := all.times[i]
	of.seconds = append(of.seconds, run.Seconds)
	for part, s := range run.Parts {
		of.parts[part] = append(of.parts[part], s)
	}
}

// medians adds up the instructions, each at the median of its steps: all of them, and by what
// parts do.
func (all *instructions) medians() (seconds float64, by map[string]Work) {
	for _, of := range all.times {
		median := stats.Median(of.seconds)
		seconds += median
		if len(of.parts) == 0 {
			continue
		}
		if by == nil {
			by = map[string]Work{}
		}
		w := by[of.Division.String()]
		w.Seconds += median
		var slowest float64
		for _, part := range of.parts {
			median := stats.Median(part)
			w.All, slowest = w.All+median, max(slowest, median)
		}
		w.Slowest += slowest
		by[of.Division.String()] = w
	}
	return seconds, by
}

// causes are the columns of what keeps parts from an even share of one part's step, in
// seconds of a round. An even share and the causes are the step.
var causes = []struct {
	name string
	of   func(one, r *Record, parts float64) float64
}{
	{"turns", func(_, r *Record, _ float64) float64 {
		w := r.work(program.Partial)
		return w.Seconds - w.Slowest
	}},
	{"uneven rows", func(_, r *Record, parts float64) float64 {
		return r.work(program.ByRows).uneven(parts) + r.work(program.Partial).uneven(parts)
	}},
	{"smaller pieces", func(one, r *Record, parts float64) (s float64) {
		for _, d := range computing {
			s += r.work(d).All / parts
		}
		return s - one.Kernels/parts
	}},
	{"uncut operations", func(_, r *Record, parts float64) float64 { return r.work(program.Alone).uneven(parts) }},
	{"batch norm", func(_, r *Record, parts float64) float64 {
		return r.work(program.Chunked).uneven(parts) + r.work(program.Everywhere).uneven(parts)
	}},
	{"exchanges", func(_, r *Record, _ float64) float64 { return r.work(program.Exchange).Seconds }},
	{"update and others", func(one, r *Record, parts float64) float64 {
		rest := r.Step - one.Step/parts + one.Kernels/parts
		for _, d := range append(slices.Clone(computing), program.Exchange) {
			rest -= r.device(d)
		}
		return rest
	}},
}

// computing are the divisions at which parts compute.
var computing = []program.Division{program.Alone, program.ByRows, program.Partial, program.Chunked, program.Everywhere}

// work is that of a kind. What all parts do alike counts once: one part would do it once.
func (r *Record) work(d program.Division) Work {
	w := r.Work[d.String()]
	if d == program.Everywhere {
		w.All = w.Slowest
	}
	return w
}

// device is the time of instructions by the causes: of the slowest part, and of what comes on
// top at turns and exchanges.
func (r *Record) device(d program.Division) float64 {
	w := r.work(d)
	if d == program.Partial || d == program.Exchange {
		return w.Seconds
	}
	return w.Slowest
}

// uneven is what the slowest parts take longer than all of them would, were they even.
func (w Work) uneven(parts float64) float64 { return w.Slowest - w.All/parts }

// records are all of a log, by parts and round.
func (x *emulated) records(log *records.Log, p profile) (map[int][]*Record, error) {
	all := map[int][]*Record{}
	for _, parts := range x.Spec.Parts {
		for round := range p.Rounds {
			var r Record
			if err := log.Get(name(parts, round), &r); err != nil {
				return nil, err
			}
			all[parts] = append(all[parts], &r)
		}
	}
	return all, nil
}

// of maps records of rounds.
func of(rs []*Record, f func(round int, r *Record) float64) []float64 {
	made := make([]float64, len(rs))
	for i, r := range rs {
		made[i] = f(i, r)
	}
	return made
}

func steps(rs []*Record) []float64 {
	return of(rs, func(_ int, r *Record) float64 { return r.Step })
}

func (x *emulated) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := x.records(log, p)
	if err != nil {
		return nil, err
	}
	var before map[int][]*Record
	if reference != nil {
		of, err := lab.ProfileOf(x.Spec.Profiles, reference.Key.Profile)
		if err != nil {
			return nil, err
		}
		if before, err = x.records(reference, of); err != nil {
			return nil, err
		}
	}
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("Steps of %v with %s, %d images, K = 1, M = 1, nothing recomputed; S parts with one thread each divide each image by its rows, with the same bits for every S. Links between parts take no time.", p.Model, x.Spec.Optimizer, p.Examples),
		timed.EmulatedCaption(p.Rounds, "row"),
		"Without turns: if the parts' sums of gradients of weights were made beside each other; adding them up, for which no time is taken, would come on top, and the bits would be others for each S. Even: the step of one part divided by S. Then what is added to that, by cause; an even share and the causes are the step, of each round. Turns: parts follow one another over blocks of the gradients of weights, wait for their first block and for the others at each beat, and hand blocks on. Uneven rows: the slowest part takes longer than the mean. Smaller pieces: all parts together take longer than one part for everything. Uncut operations: on one part. Batch norm: chunks that parts have more of than others, and what all parts do alike. Exchanges: copies of rows. Update and others: on one part, with clearing gradients, handing out weights and starting tasks.",
	}}
	t.Numbers("S", "measured step", "95%, step", "measured speedup", "95%, speedup", "measured without turns", "95%, without turns", "paper", "even")
	for _, c := range causes {
		t.Numbers(c.name)
	}
	t.Texts("same bits")
	if reference != nil {
		t.Numbers("speedup, " + lab.ReferenceName(log, reference))
	}
	one := all[1]
	var other []int
	var measured, without []plot.Point
	for i, parts := range x.Spec.Parts {
		rs := all[parts]
		same := !slices.ContainsFunc(rs, func(r *Record) bool { return r.SHA256 != one[0].SHA256 || r.Loss != one[0].Loss })
		if !same {
			other = append(other, parts)
		}
		paper := lab.Absent
		if i == len(x.Spec.Parts)-1 {
			paper = lab.Value{Text: x.Spec.Paper.Text, Numbers: []float64{x.Spec.Paper.Value}}
		}
		beside := of(rs, func(_ int, r *Record) float64 { return r.Step - causes[0].of(nil, r, float64(parts)) })
		speedup, gained := stats.RatioOf(steps(one), steps(rs)), stats.RatioOf(steps(one), beside)
		row := []any{
			parts, lab.Median(steps(rs), lab.Seconds), lab.Ratio(speedup, parts == 1), lab.Ratio(gained, parts == 1), paper,
			lab.Seconds(stats.Median(steps(one)) / float64(parts)),
		}
		for _, c := range causes {
			cause := lab.Absent
			if parts > 1 {
				cause = lab.Seconds(stats.Median(of(rs, func(round int, r *Record) float64 { return c.of(one[round], r, float64(parts)) })))
			}
			row = append(row, cause)
		}
		row = append(row, lab.YesOrNo(same))
		if reference != nil {
			row = append(row, lab.Fixed(stats.RatioOf(steps(before[1]), steps(before[parts])).Median, 2))
		}
		t.Add(row...)
		measured = append(measured, plot.Point{X: float64(i), Y: speedup.Median})
		without = append(without, plot.Point{X: float64(i), Y: gained.Median})
	}
	t.Notes = append(lab.FewRoundsNote(p.Rounds), timed.ProcessNote(x.settings(p), log))
	if reference != nil {
		t.Notes = append(t.Notes, lab.ReferenceNote(reference))
	}
	r := &lab.Report{Tables: []*lab.Table{t}}
	if len(other) > 0 {
		r.Verdict = fmt.Errorf("%s: steps on %s parts have OTHER bits than on one", x.ID(), lab.JoinWith(other, ", "))
	}
	panel := &plot.LinePanel{Title: fmt.Sprintf("%d images", p.Examples), X: "parts", Y: "speedup", FromZero: true}
	for _, parts := range x.Spec.Parts {
		panel.Names = append(panel.Names, fmt.Sprint(parts))
	}
	panel.Series = []plot.Series{{Name: "measured", Lines: [][]plot.Point{measured}}, {Name: "without turns", Lines: [][]plot.Point{without}}}
	r.Files, err = plot.Files(x.ID(), x.Title(), []plot.Axes{panel})
	return r, err
}
