// Package accuracy compares final accuracies with batch norm over M with M = 1's.
package accuracy

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "consistency-accuracy", Folder: folder, New: lab.New[accuracy], Untimed: true, Command: "consistency"}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	// Margin, in percentage points, is the largest mean difference of accuracy to
	// the baseline that counts as none.
	Margin float64 `yaml:"margin" want:">0..100"`
	// Level is that of the tests for equivalence.
	Level float64 `yaml:"level" want:">0..0.499"`
	// Setups are what is compared; the first is the baseline.
	Setups   []lab.SetupSpec            `yaml:"setups"`
	Profiles map[string]trained.Profile `yaml:"profiles"`

	setups []train.Setup
}

// accuracy trains a network with batch norm to the end at several M, over
// seeds.
type accuracy struct {
	lab.Base[spec]
}

func (a *accuracy) Resolve() *lab.Problem {
	if len(a.Spec.Setups) < 2 {
		return lab.At(errors.New("want a baseline and something to compare"), "setups")
	}
	a.Spec.setups = nil
	for i, s := range a.Spec.Setups {
		setup := s.Setup()
		if i == 0 && (setup.Partitions != 1 || setup.MicroBatches != 1) {
			return lab.At(errors.New("want K = 1 and M = 1, the baseline"), "setups", "0")
		}
		if err := trained.CheckSetup(setup); err != nil {
			return lab.At(err, "setups", fmt.Sprint(i))
		}
		a.Spec.setups = append(a.Spec.setups, setup)
	}
	return trained.Check(a.Spec.Profiles)
}

func (a *accuracy) arms(p trained.Profile) []trained.Arm {
	var arms []trained.Arm
	for _, s := range a.Spec.setups {
		arms = append(arms, trained.Arm{
			Name:     fmt.Sprintf("K=%d M=%d", s.Partitions, s.MicroBatches),
			Training: func(seed uint64) train.Training { return p.Training.Training("synthetic", s, seed) },
		})
	}
	return arms
}

func (a *accuracy) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return trained.Measure(ctx, a.ID(), a.Spec.Profiles, a.arms, log, p)
}

func (a *accuracy) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := trained.Open(log, reference, a.Spec.Profiles, a.arms)
	if err != nil {
		return nil, err
	}
	base := r.All[0].Accuracies()
	t, n := r.Training, len(r.AllSeeds())
	table := &lab.Table{
		ID: "consistency-accuracy", Title: a.Spec.Title,
		Caption: []string{
			fmt.Sprintf("%v, %d parameters, %d steps of %d procedural images, %s; %d complete trainings at each M, with the same seeds. Accuracy is measured on %d held-out images, with the moving averages of batch norm.",
				t.Model, r.All[0].Runs[0].Params, t.Steps, t.Batch, t.Optimizer, n, r.All[0].Runs[0].Targets),
			fmt.Sprintf("The difference to M = 1 is the mean over pairs of trainings with the same seed, in percentage points, with its 95%% interval (Student's t). Equivalence is tested by two one-sided tests at %g%% against a margin of %g points; the margin was fixed beforehand.",
				100*a.Spec.Level, a.Spec.Margin),
			"[V1] is the paper's own criterion (first version, section 4.3.1): accuracy within two standard deviations of the baseline's mean. Batch norm sees one micro-batch at a time: the smaller the micro-batch, the noisier the statistics.",
		},
	}
	table.Texts("training", "micro-batch")
	table.Numbers("accuracy", "sd", "runs within [V1]")
	table.Texts("mean within")
	table.Numbers("difference to M = 1 (points)", "p of equivalence", "smallest margin to hold")
	table.Texts("outcome")
	mean, sd := stats.MeanAndSD(base)
	final := r.Panel()
	final.Band = &plot.Band{Name: "M = 1: mean ± 2 standard deviations", Lo: mean - 2*sd, Hi: mean + 2*sd}
	gaps := &plot.DotPanel{
		Title: "difference to M = 1, pairs of one seed", Y: "percentage points",
		Band: &plot.Band{Name: fmt.Sprintf("margin: ± %g points", a.Spec.Margin), Lo: -a.Spec.Margin, Hi: a.Spec.Margin},
	}
	says := map[string][]string{}
	for i, arm := range r.All {
		setup := a.Spec.setups[i]
		name, held := "M=1, no pipeline", []any{"", "", "baseline", "", "", ""}
		if i > 0 {
			own := arm.Accuracies()
			c := trained.Compare(own, base, a.Spec.Margin)
			outcome := c.Says(a.Spec.Level)
			says[outcome] = append(says[outcome], fmt.Sprintf("M = %d", setup.MicroBatches))
			name = arm.Name
			held = []any{lab.Joined("%v of %v", c.Within, n), lab.YesOrNo(c.MeanWithin), c.Cells(a.Spec.Level)}
			gaps.Add(name, stats.Differences(own, base))
		}
		r.Add(table, i, name, micros(gpipe.MicroBatchSizes(t.Batch, setup.MicroBatches)), arm.Accuracy(), held)
	}
	// None of the outcomes fails the run: that micro-batches are normalised each by itself is
	// part of the method, and what it does to accuracy is what is asked here.
	table.Notes = append([]string{trained.Verdict(says, "M = 1", a.Spec.Margin)}, r.SeedNotes()...)
	each := trained.EachTable("consistency-accuracy-runs", "Final accuracy: each training", r.All, r.AllSeeds())
	files, err := plot.Files("consistency-accuracy", a.Spec.Title, []plot.Axes{final, gaps})
	return &lab.Report{Tables: []*lab.Table{table, each}, Files: files}, err
}

// micros is the sizes of micro-batches, once if they are alike.
func micros(sizes []int) lab.Value {
	if last := sizes[len(sizes)-1]; sizes[0] != last {
		return lab.Ints(" or ", []int{last, sizes[0]})
	}
	return lab.Ints("", sizes[:1])
}

func (a *accuracy) Planned(profile string) []lab.PlannedRun {
	p := a.Spec.Profiles[profile]
	return trained.PlannedArms(profile, a.arms(p), p.AllSeeds())
}
