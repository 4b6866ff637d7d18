// Package breakdown says where the time of a step goes (Figure 4 of V1).
package breakdown

import (
	"context"
	"embed"
	"fmt"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "breakdown", Folder: folder, New: suite.New[Breakdown]}

// breakdownSpec is spec.yaml.
type breakdownSpec struct {
	suite.Head `yaml:",inline"`
	K          []int       `yaml:"k" want:"1..1024"`
	M          int         `yaml:"m" want:"1..65536"`
	Optimizer  string      `yaml:"optimizer" want:"optimizer"`
	LR         float64     `yaml:"lr" want:">0.."`
	Paper      paperShares `yaml:"paper"`
	Picture    suite.Cell  `yaml:"picture"`

	Profiles map[string]breakdownProfile `yaml:"profiles"`
}

// paperShares is the paper's breakdown, in percent.
type paperShares struct {
	K           int            `yaml:"k" want:"1..1024"`
	Computation suite.Verbatim `yaml:"computation"`
	Recompute   suite.Verbatim `yaml:"recompute"`
	Bubble      suite.Verbatim `yaml:"bubble"`
	Imbalance   suite.Verbatim `yaml:"imbalance"`
	Setup       suite.Verbatim `yaml:"setup"`
	Update      suite.Verbatim `yaml:"update"`
}

type breakdownProfile struct {
	Expected suite.Span     `yaml:"expected"`
	Model    workload.Model `yaml:"model"`
	Batch    int            `yaml:"batch"`
	Rounds   int            `yaml:"rounds" want:"1..1000"`
	WarmUp   int            `yaml:"warm_up" want:"0..1000"`
}

// Breakdown times one network at several K on emulated devices, and takes the
// picture of a step with GPipe and of one without.
type Breakdown struct {
	suite.Base[breakdownSpec]
}

func (b *Breakdown) Resolve() *suite.Problem {
	for _, name := range suite.Profiles {
		p := b.Spec.Profiles[name]
		for _, m := range []int{b.Spec.M, b.Spec.Picture.M} {
			if p.Batch%m != 0 {
				return suite.At(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, p.Batch), "profiles", name, "batch")
			}
		}
	}
	return nil
}

// The runs of the picture.
const (
	pictureNaive = "picture/naive"
	pictureGPipe = "picture/gpipe"
)

func BreakdownRun(k int) string { return fmt.Sprintf("K=%d", k) }

func (b *Breakdown) setup(k, m int) workload.Setup {
	return workload.Setup{Partitions: k, MicroBatches: m, Device: gpipe.Emulated, Threads: 1}
}

// Rounds are those of a profile: a breakdown for each K, and the picture's two.
func (b *Breakdown) Rounds(profile breakdownProfile) *rounds.Rounds {
	r := &rounds.Rounds{ID: b.ID(), Count: profile.Rounds, WarmUp: profile.WarmUp, Seed: b.Spec.Seed}
	add := func(name string, s workload.Setup) {
		r.Runs = append(r.Runs, rounds.Run{
			Name: name, Bench: name,
			Training: workload.Training{
				Model: profile.Model, Batch: profile.Batch,
				Optimizer: b.Spec.Optimizer, LR: b.Spec.LR, LRSchedule: "constant",
				Setup: s,
			},
			Steps: 1,
		})
	}
	for _, k := range b.Spec.K {
		add(BreakdownRun(k), b.setup(k, b.Spec.M))
	}
	naive := b.setup(b.Spec.Picture.K, 1)
	naive.Schedule, naive.Checkpoint = schedule.Naive, schedule.Never
	add(pictureNaive, naive)
	add(pictureGPipe, b.setup(b.Spec.Picture.K, b.Spec.Picture.M))
	return r
}

func (b *Breakdown) Repeated(profile string) (rounds.Repeated, error) {
	p, err := suite.ProfileOf(b.Spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return b.Rounds(p), nil
}

func (b *Breakdown) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	r, err := b.Repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	return rounds.InThisProcess(ctx, r, log, p)
}

func (b *Breakdown) Planned(profile string) []suite.PlannedRun {
	return b.Rounds(b.Spec.Profiles[profile]).Planned(profile)
}
