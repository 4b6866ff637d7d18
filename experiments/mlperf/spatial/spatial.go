// Package spatial models what SSD gains from images that are divided over cores.
package spatial

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe"
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

var Definition = lab.Definition{ID: "spatial-partitioning", Folder: folder, New: lab.New[spatial], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	Accelerator string       `yaml:"accelerator" want:"accelerator"`
	DType       string       `yaml:"dtype" want:"dtype"`
	Model       train.Model  `yaml:"model"`
	Optimizer   string       `yaml:"optimizer" want:"optimizer"`
	Examples    []int        `yaml:"examples" want:"1..65536"` // of all cores of an image; the first is what is compared
	Cores       []int        `yaml:"cores" want:"1..64"`
	Paper       lab.Verbatim `yaml:"paper"` // speedup on the most cores

	Profiles map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Batches  int      `yaml:"batches" want:"1..16"` // how many of the numbers of examples
}

// spatial models a step for each number of cores.
type spatial struct {
	lab.Base[spec]
}

func (s *spatial) Resolve() *lab.Problem {
	switch {
	case len(s.Spec.Cores) < 2 || s.Spec.Cores[0] != 1 || !slices.IsSorted(s.Spec.Cores):
		return lab.At(errors.New("want 1 and more, in ascending order"), "cores")
	case len(s.Spec.Examples) == 0:
		return lab.At(errors.New("want at least one"), "examples")
	}
	for _, name := range lab.Profiles {
		if p, err := lab.ProfileOf(s.Spec.Profiles, name); err == nil && p.Batches > len(s.Spec.Examples) {
			return lab.At(fmt.Errorf("want at most %d, the number of examples", len(s.Spec.Examples)), "profiles", name, "batches")
		}
	}
	return nil
}

func (s *spatial) Planned(string) []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"model"}, Run: lab.ModelledRun{Model: s.Spec.Model, Most: 1}}}
}

// sample is of a number of cores. Nothing in it depends on the machine.
type sample struct {
	gpipe.SpatialEstimate
	// Rest is the step's time besides F and B on one core: the update, and clearing
	// gradients. All cores do it alike.
	Rest float64
}

// seconds of a step on so many cores.
func (s sample) seconds() float64 { return s.Seconds() + s.Rest }

func (s *spatial) examples(profile string) ([]int, error) {
	p, err := lab.ProfileOf(s.Spec.Profiles, profile)
	return s.Spec.Examples[:min(p.Batches, len(s.Spec.Examples))], err
}

func (s *spatial) name(examples, cores int) string {
	return lab.AtRates(fmt.Sprintf("examples=%d/cores=%d", examples, cores), s.Spec.Accelerator, nil)
}

func (s *spatial) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	batches, err := s.examples(log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []lab.Job
	for _, examples := range batches {
		for _, cores := range s.Spec.Cores {
			name := s.name(examples, cores)
			jobs = append(jobs, lab.Job{Sample: name, Make: func(ctx context.Context) (any, string, error) {
				made, err := s.model(ctx, examples, cores)
				return made, name, err
			}})
		}
	}
	return lab.MakeMissing(ctx, s.ID(), log, p, jobs)
}

func (s *spatial) model(ctx context.Context, examples, cores int) (*sample, error) {
	sim := simulate.Simulating{
		Model: s.Spec.Model, Accelerator: s.Spec.Accelerator, Batch: examples, Optimizer: s.Spec.Optimizer, DType: lab.Named(train.ParseDType, s.Spec.DType),
		Accounting: gpipe.FullAccounting, Setup: train.Setup{Partitions: 1, MicroBatches: 1, Schedule: schedule.GPipe, Checkpoint: schedule.Never},
	}
	made, err := s.estimate(ctx, sim, examples, cores)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", s.ID(), s.name(examples, cores), err)
	}
	return made, nil
}

func (s *spatial) estimate(ctx context.Context, sim simulate.Simulating, examples, cores int) (*sample, error) {
	step, err := sim.Run(ctx)
	if err != nil {
		return nil, err
	}
	in := s.Spec.Model.Input(examples)
	p, err := sim.Pipeline(ctx, in)
	if err != nil {
		return nil, err
	}
	one, err := p.ModelSpatial(in, 1, sim.Modelling())
	if err != nil {
		return nil, err
	}
	e, err := p.ModelSpatial(in, cores, sim.Modelling())
	return &sample{SpatialEstimate: e, Rest: step.StepSeconds - one.Seconds()}, err
}

// causes are the columns of what keeps cores from an even share, in seconds.
var causes = []struct {
	name string
	of   func(s sample, cores int) float64
}{
	{"uneven rows", func(s sample, _ int) float64 { return s.Uneven }},
	{"small maps", func(s sample, _ int) float64 { return s.Small }},
	{"uncut operations", func(s sample, _ int) float64 { return s.Alone }},
	{"halos", func(s sample, _ int) float64 { return s.Halo }},
	{"batch norm", func(s sample, _ int) float64 { return s.Statistics }},
	{"sums of gradients", func(s sample, _ int) float64 { return s.Sums }},
	{"update", func(s sample, cores int) float64 { return s.Rest * (1 - 1/float64(cores)) }},
}

func (s *spatial) Report(log, _ *records.Log) (*lab.Report, error) {
	batches, err := s.examples(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	t := &lab.Table{ID: s.ID(), Title: s.Title(), Caption: []string{
		fmt.Sprintf("A step of %v with %s on cores (%s) that divide each image by its rows, %s activations, nothing recomputed. Even: the step of one core divided by their number. Then what is added to that, by cause; an even share and the causes are the step.",
			s.Spec.Model, s.Spec.Optimizer, s.Spec.Accelerator, s.Spec.DType),
		"Uneven rows: one row more than others, rows of halos, and starts of operations. Small maps: those with fewer rows than cores, on one core. Uncut operations: flattening and the loss, on one core, with their transfers. Halos: their transfers. Batch norm: transfers for statistics, and what all cores do alike. Sums of gradients: the cores' partial sums. Update: all cores do it alike. Uncut bits: if cores took turns at gradients of weights instead, so that sums have the order of the uncut network.",
	}}
	t.Numbers("images", "cores", "step", "speedup", "speedup, uncut bits", "paper", "even")
	for _, c := range causes {
		t.Numbers(c.name)
	}
	var points []plot.Point
	for b, examples := range batches {
		var one sample
		for i, cores := range s.Spec.Cores {
			var of sample
			if err := log.Get(s.name(examples, cores), &of); err != nil {
				return nil, err
			}
			if i == 0 {
				one = of
			}
			paper := lab.Absent
			if b == 0 && i == len(s.Spec.Cores)-1 {
				paper = lab.Value{Text: s.Spec.Paper.Text, Numbers: []float64{s.Spec.Paper.Value}}
			}
			speedup := one.seconds() / of.seconds()
			row := []any{examples, cores, lab.Seconds(of.seconds()), lab.Fixed(speedup, 2), lab.Fixed(one.seconds()/(of.seconds()+of.Turns), 2), paper, lab.Seconds(one.seconds() / float64(cores))}
			for _, c := range causes {
				row = append(row, lab.Seconds(c.of(of, cores)))
			}
			t.Add(row...)
			if b == 0 {
				points = append(points, plot.Point{X: float64(i), Y: speedup})
			}
		}
	}
	r := &lab.Report{Tables: []*lab.Table{t}}
	panel := &plot.LinePanel{Title: fmt.Sprintf("%d images", batches[0]), X: "cores", Y: "speedup", FromZero: true}
	for _, cores := range s.Spec.Cores {
		panel.Names = append(panel.Names, fmt.Sprint(cores))
	}
	panel.Series = []plot.Series{{Name: "modelled", Lines: [][]plot.Point{points}}}
	r.Files, err = plot.Files(s.ID(), s.Title(), []plot.Axes{panel})
	return r, err
}
