// Package precision compares trainings with bfloat16 activations with those in float32.
package precision

import (
	"context"
	"embed"
	"fmt"

	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "precision", Folder: folder, New: lab.New[precision], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	// Margin, in percentage points, is the largest mean difference of accuracy that counts
	// as none.
	Margin float64 `yaml:"margin" want:">0..100"`
	// Level is that of the test for equivalence.
	Level    float64                    `yaml:"level" want:">0..0.499"`
	Setup    lab.SetupSpec              `yaml:"setup"`
	Profiles map[string]trained.Profile `yaml:"profiles"`
}

// precision trains a network to the end in float32 and with bfloat16 activations, over
// seeds.
type precision struct {
	lab.Base[spec]
}

func (x *precision) Resolve() *lab.Problem {
	if x.Spec.Setup.DType != "" {
		return lab.At(fmt.Errorf("want no dtype: both are compared"), "setup", "dtype")
	}
	if err := trained.CheckSetup(x.Spec.Setup.Setup()); err != nil {
		return lab.At(err, "setup")
	}
	return trained.Check(x.Spec.Profiles)
}

// arms are float32, the baseline, and bfloat16.
func (x *precision) arms(p trained.Profile) (arms []trained.Arm) {
	for _, dt := range []graph.DType{graph.F32, graph.BF16} {
		setup := x.Spec.Setup.Setup()
		setup.DType = dt
		arms = append(arms, trained.Arm{
			Name:     dt.String(),
			Training: func(seed uint64) train.Training { return p.Training.Training("synthetic", setup, seed) },
		})
	}
	return arms
}

func (x *precision) Planned(profile string) []lab.PlannedRun {
	p := x.Spec.Profiles[profile]
	return trained.PlannedArms(profile, x.arms(p), p.AllSeeds())
}

func (x *precision) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return trained.Measure(ctx, x.ID(), x.Spec.Profiles, x.arms, log, p)
}

func (x *precision) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := trained.Open(log, reference, x.Spec.Profiles, x.arms)
	if err != nil {
		return nil, err
	}
	t, n := r.Training, len(r.AllSeeds())
	table := &lab.Table{
		ID: "precision", Title: x.Spec.Title,
		Caption: []string{
			fmt.Sprintf("%v, %d parameters, %d steps of %d examples, %s; %d complete trainings with each type of activations, from the same weights and on the same examples. Accuracy and loss are those of %d held-out targets.",
				t.Model, r.All[0].Runs[0].Params, t.Steps, t.Batch, t.Optimizer, n, r.All[0].Runs[0].Targets),
			fmt.Sprintf("Differences to float32 are means over pairs of trainings with the same seed, with their 95%% intervals (Student's t). Equivalence of the accuracies is tested by two one-sided tests at %g%% against a margin of %g points, which was fixed beforehand.",
				100*x.Spec.Level, x.Spec.Margin),
			"Weights, optimiser, statistics of batch norm and the loss are float32 in both; no loss is scaled.",
		},
	}
	table.Texts("activations")
	table.Numbers("accuracy", "sd", "held-out loss", "difference (points)", "p of equivalence", "smallest margin to hold")
	table.Texts("outcome")
	table.Numbers("difference of loss (nats)")
	base, narrow := r.All[0], r.All[1]
	c := trained.Compare(narrow.Accuracies(), base.Accuracies(), x.Spec.Margin)
	outcome := c.Says(x.Spec.Level)
	r.Add(table, 0, "float32", base.Accuracy(), lab.Mean(heldOut(base), 4), "", "", "", "baseline", "")
	r.Add(table, 1, "bfloat16", narrow.Accuracy(), lab.Mean(heldOut(narrow), 4), c.Cells(x.Spec.Level), lab.Paired(stats.Pairs(heldOut(narrow), heldOut(base)), 4))
	table.Notes = append([]string{trained.Verdict(map[string][]string{outcome: {"bfloat16"}}, "float32", x.Spec.Margin)}, r.SeedNotes()...)
	each := trained.EachTable("precision-runs", "bfloat16 activations: each training", r.All, r.AllSeeds())
	gaps := &plot.DotPanel{
		Title: "difference to float32, pairs of one seed", Y: "percentage points",
		Band: &plot.Band{Name: fmt.Sprintf("margin: ± %g points", x.Spec.Margin), Lo: -x.Spec.Margin, Hi: x.Spec.Margin},
	}
	gaps.Add(narrow.Name, stats.Differences(narrow.Accuracies(), base.Accuracies()))
	files, err := plot.Files("precision", x.Spec.Title, []plot.Axes{r.Panel(), gaps})
	return &lab.Report{Tables: []*lab.Table{table, each}, Files: files}, err
}

// heldOut are an arm's held-out losses, by seed.
func heldOut(t trained.Trials) (losses []float64) {
	for _, r := range t.Runs {
		losses = append(losses, r.HeldOut)
	}
	return losses
}
