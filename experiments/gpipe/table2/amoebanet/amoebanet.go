// Package amoebanet measures AmoebaNet-D's throughput by K and M (Table 2).
package amoebanet

import (
	"context"
	"embed"
	"fmt"
	"slices"

	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "table2-amoebanet", Folder: folder, New: load, Command: "table2"}

func (a *Amoeba) Planned(profile string) []suite.PlannedRun {
	return append(a.Rounds(a.Spec.Profiles[profile]).Planned(profile),
		suite.PlannedRun{Path: []string{"paper_model"}, Run: suite.ModelledRun{Model: a.Spec.PaperModel, Most: slices.Max(a.Spec.K)}})
}

// amoebaSpec is spec.yaml.
type amoebaSpec struct {
	suite.Head `yaml:",inline"`
	Torchgpipe string `yaml:"torchgpipe"` // source of its values
	suite.Grid `yaml:",inline"`
	Costs      []string         `yaml:"costs" want:"cost"`
	Optimizer  string           `yaml:"optimizer" want:"optimizer"`
	LR         float64          `yaml:"lr" want:">0.."`
	Paper      suite.PaperCells `yaml:"paper"`
	PaperModel workload.Model   `yaml:"paper_model"`

	Profiles map[string]amoebaProfile `yaml:"profiles"`
}

type amoebaProfile struct {
	Expected suite.Span     `yaml:"expected"`
	Model    workload.Model `yaml:"model"`
	Batch    int            `yaml:"batch"`
	Rounds   int            `yaml:"rounds" want:"1..1000"`
	Steps    map[int]int    `yaml:"steps" want:"1..1000"` // in a round, by M
	WarmUp   int            `yaml:"warm_up" want:"0..1000"`
}

// Amoeba is Table 2's other half: a grid of K and M on emulated devices, cut in
// several ways.
type Amoeba struct {
	suite.Base[amoebaSpec]
	costs []workload.Cost

	Modelled modelled.ModelledBeside
}

func load() (suite.Experiment, error) {
	a := &Amoeba{}
	var err error
	a.Modelled, err = modelled.Beside("amoebanet")
	a.Others = a.Modelled.Decides
	return a, err
}

func (a *Amoeba) Resolve() *suite.Problem {
	a.costs = nil
	for i, name := range a.Spec.Costs {
		c, err := workload.ParseCost(name)
		if err != nil {
			return suite.At(err, "costs", fmt.Sprint(i))
		}
		a.costs = append(a.costs, c)
	}
	for _, name := range suite.Profiles {
		p := a.Spec.Profiles[name]
		for _, m := range a.Spec.M {
			if p.Steps[m] < 1 {
				return suite.At(fmt.Errorf("no steps for M = %d: want 1 or more", m), "profiles", name, "steps")
			}
			if p.Batch%m != 0 {
				return suite.At(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, p.Batch), "profiles", name, "batch")
			}
		}
	}
	return a.Spec.CheckPaper(a.Spec.Paper)
}

func amoebaRun(cost workload.Cost, c suite.Cell) string {
	return fmt.Sprintf("cut=%v/K=%d/M=%d", cost, c.K, c.M)
}

func (a *Amoeba) Setup(cost workload.Cost, c suite.Cell) workload.Setup {
	return workload.Setup{Partitions: c.K, MicroBatches: c.M, Cost: cost, Device: gpipe.Emulated, Threads: 1}
}

// Rounds are those of a profile: every cell with every cut.
func (a *Amoeba) Rounds(profile amoebaProfile) *rounds.Rounds {
	r := &rounds.Rounds{ID: a.ID(), Count: profile.Rounds, WarmUp: profile.WarmUp, Seed: a.Spec.Seed}
	for _, c := range a.Spec.Cells() {
		for _, cost := range a.costs {
			r.Runs = append(r.Runs, rounds.Run{
				Name: amoebaRun(cost, c), Bench: amoebaRun(cost, c),
				Training: workload.Training{
					Model: profile.Model, Batch: profile.Batch,
					Optimizer: a.Spec.Optimizer, LR: a.Spec.LR, LRSchedule: "constant",
					Setup: a.Setup(cost, c),
				},
				Steps: profile.Steps[c.M],
			})
		}
	}
	return r
}

func (a *Amoeba) Repeated(profile string) (rounds.Repeated, error) {
	p, err := suite.ProfileOf(a.Spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return a.Rounds(p), nil
}

func (a *Amoeba) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	r, err := a.Repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	if err := a.Modelled.Measure(ctx, log, p); err != nil {
		return err
	}
	return rounds.InThisProcess(ctx, r, log, p)
}
