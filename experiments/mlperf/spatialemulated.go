package mlperf

import (
	"context"
	"fmt"
	"slices"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/nn/program"
	"gpipebench/train"
)

// spatialEmulatedSpec is the spec of spatial-emulated.
type spatialEmulatedSpec struct {
	timed.Profiled[spatialEmulatedProfile] `yaml:",inline"`
	Optimizer                              string       `yaml:"optimizer" want:"optimizer"`
	LR                                     float64      `yaml:"lr" want:">0.."`
	Parts                                  []int        `yaml:"parts" want:"1..64,first=1,ascending"`
	Paper                                  lab.Verbatim `yaml:"paper"` // speedup on the most parts
}

type spatialEmulatedProfile struct {
	timed.Size `yaml:",inline"`
	Model      train.Model `yaml:"model"`
	Examples   int         `yaml:"examples" want:"1..65536"`
	Steps      int         `yaml:"steps" want:"1..1000"` // that are timed in a round
}

// spatialEmulated times steps of a network whose images are divided over emulated parts.
type spatialEmulated = timed.Compared[spatialEmulatedSpec, spatialEmulatedProfile, int, partedStep]

type partedRuns = timed.Comparison[spatialEmulatedProfile, int, partedStep]

func newSpatialEmulated() (lab.Experiment, error) {
	x := &spatialEmulated{}
	s := &x.Spec
	x.Training, x.Make, x.Show = s.training, s.measure, s.show
	x.Runs = func(spatialEmulatedProfile) []int { return s.Parts }
	x.Name = func(parts int) string { return fmt.Sprintf("parts=%d", parts) }
	return x, nil
}

// training is a profile's on some parts.
func (x *spatialEmulatedSpec) training(p spatialEmulatedProfile, parts int) train.Training {
	return train.Training{
		Model: p.Model, Data: "synthetic", Batch: p.Examples, Steps: p.Steps + 1, Seed: x.Seed,
		Optimizer: x.Optimizer, LR: x.LR, LRSchedule: "constant",
		Config: datasets.Config{SyntheticImages: datasets.SyntheticImagesConfig{Train: p.Examples, HeldOut: 1}},
		Setup: train.Setup{
			Partitions: 1, MicroBatches: 1, Spatial: parts, Checkpoint: schedule.Never, Device: gpipe.Emulated, Threads: 1,
		},
	}
}

// partedStep is a training's step.
type partedStep struct {
	Step    float64 `json:"step_seconds"`   // on the device's clock, every kind of task at its median
	Kernels float64 `json:"kernel_seconds"` // of it, of all instructions, each at its median
	// Work is the same by what the parts do, nil of one part.
	Work   map[string]partedWork `json:"work,omitempty"`
	Loss   float64               `json:"loss"` // of the last step
	SHA256 string                `json:"sha256"`
	Others float64               `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// partedWork is the time of instructions at which parts do the same, in seconds.
type partedWork struct {
	Seconds float64 `json:"seconds"` // on the device's clock
	Slowest float64 `json:"slowest"` // of each instruction the part that took longest
	All     float64 `json:"all"`     // of all parts
}

// Check requires times above 0, and of the parts times that are possible.
func (r *partedStep) Check() error {
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

func (x *spatialEmulatedSpec) measure(ctx context.Context, p spatialEmulatedProfile, parts int) (*partedStep, error) {
	l, err := timed.Opened(ctx, x.training(p, parts))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	ran := instructionTimes{index: map[taskInstruction]int{}}
	l.Trainer.Watch(ran.add)
	meter := machine.StartMeter()
	made := &partedStep{}
	if made.Step, made.Loss, err = timed.Stepped(ctx, l, p.Steps); err != nil {
		return nil, err
	}
	l.Trainer.Watch(nil)
	made.SHA256, made.Others = l.Trainer.Hash(), meter.Others()
	made.Kernels, made.Work = ran.medians()
	return made, nil
}

// instructionTimes are the times of each instruction of a training's steps, in the order in
// which they first ran. With one micro-batch each instruction of a task runs once a step.
type instructionTimes struct {
	index map[taskInstruction]int
	times []*dividedTimes
}

type taskInstruction struct {
	task schedule.Kind
	*program.Instr
}

type dividedTimes struct {
	program.Division
	seconds []float64
	parts   [][]float64 // of each part
}

func (all *instructionTimes) add(run gpipe.KernelRun) {
	key := taskInstruction{run.Task, run.Instr}
	i, is := all.index[key]
	if !is {
		i = len(all.times)
		all.index[key] = i
		all.times = append(all.times, &dividedTimes{Division: run.Instr.Division, parts: make([][]float64, len(run.Parts))})
	}
	of := all.times[i]
	of.seconds = append(of.seconds, run.Seconds)
	for part, s := range run.Parts {
		of.parts[part] = append(of.parts[part], s)
	}
}

// medians adds up the instructions, each at the median of its steps: all of them, and by what
// parts do.
func (all *instructionTimes) medians() (seconds float64, by map[string]partedWork) {
	for _, of := range all.times {
		median := stats.Median(of.seconds)
		seconds += median
		if len(of.parts) == 0 {
			continue
		}
		if by == nil {
			by = map[string]partedWork{}
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

// stepCauses are what keeps parts from an even share of one part's step, in
// seconds of a round. An even share and the causes are the step.
var stepCauses = []struct {
	name string
	of   func(one, r *partedStep, parts float64) float64
}{
	{"turns", func(_, r *partedStep, _ float64) float64 {
		w := r.work(program.Partial)
		return w.Seconds - w.Slowest
	}},
	{"uneven rows", func(_, r *partedStep, parts float64) float64 {
		return r.work(program.ByRows).uneven(parts) + r.work(program.Partial).uneven(parts)
	}},
	{"smaller pieces", func(one, r *partedStep, parts float64) (s float64) {
		for _, d := range computing {
			s += r.work(d).All / parts
		}
		return s - one.Kernels/parts
	}},
	{"uncut operations", func(_, r *partedStep, parts float64) float64 { return r.work(program.Alone).uneven(parts) }},
	{"batch norm", func(_, r *partedStep, parts float64) float64 {
		return r.work(program.Chunked).uneven(parts) + r.work(program.Everywhere).uneven(parts)
	}},
	{"exchanges", func(_, r *partedStep, _ float64) float64 { return r.work(program.Exchange).Seconds }},
	{"update and others", func(one, r *partedStep, parts float64) float64 {
		rest := r.Step - one.Step/parts + one.Kernels/parts
		for _, d := range append(slices.Clone(computing), program.Exchange) {
			rest -= r.device(d)
		}
		return rest
	}},
}

// computing are the divisions at which parts compute.
var computing = []program.Division{program.Alone, program.ByRows, program.Partial, program.Chunked, program.Everywhere}

// work is the work of a kind. What all parts do alike counts once: one part would do it once.
func (r *partedStep) work(d program.Division) partedWork {
	w := r.Work[d.String()]
	if d == program.Everywhere {
		w.All = w.Slowest
	}
	return w
}

// device is the time of instructions by the causes: of the slowest part, and of what comes on
// top at turns and exchanges.
func (r *partedStep) device(d program.Division) float64 {
	w := r.work(d)
	if d == program.Partial || d == program.Exchange {
		return w.Seconds
	}
	return w.Slowest
}

// uneven is what the slowest parts take longer than all of them would, were they even.
func (w partedWork) uneven(parts float64) float64 { return w.Slowest - w.All/parts }

func (r *partedStep) seconds() float64 { return r.Step }

// sameBits compares the outcomes of two trainings.
func (r *partedStep) sameBits(other *partedStep) bool {
	return r.SHA256 == other.SHA256 && r.Loss == other.Loss
}

func (x *spatialEmulatedSpec) show(c *partedRuns) (shown.Rows, error) {
	var rows []shown.Values
	for _, parts := range x.Parts {
		row := shown.Values{
			"S": parts, "step": c.Each(parts, (*partedStep).seconds), "one": c.Each(1, (*partedStep).seconds), "paper": lab.Verbatim(""),
			"same":   c.SameBits(parts, 1, "steps on %s parts", (*partedStep).sameBits),
			"before": c.Before.Each(parts, (*partedStep).seconds), "before_one": c.Before.Each(1, (*partedStep).seconds),
		}
		if parts == slices.Max(x.Parts) {
			row["paper"] = x.Paper
		}
		for _, cause := range stepCauses {
			var each []float64
			for round, r := range c.Of[parts] {
				each = append(each, cause.of(c.Of[1][round], r, float64(parts)))
			}
			row[shown.Word(cause.name)] = each
		}
		rows = append(rows, row)
	}
	return shown.Rows{"": rows}, nil
}
