// Package figure3 measures speed-ups over naive model parallelism (Figure 3 of V1).
package figure3

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "figure3", Folder: folder, New: suite.New[Figure3]}

// figure3Spec is spec.yaml.
type figure3Spec struct {
	suite.Head `yaml:",inline"`
	Torchgpipe string           `yaml:"torchgpipe"`        // source of its values
	M          int              `yaml:"m" want:"1..65536"` // of the pipelines
	Optimizer  string           `yaml:"optimizer" want:"optimizer"`
	LR         float64          `yaml:"lr" want:">0.."`
	Modelled   ModelledSpec     `yaml:"modelled"`
	Networks   []figure3Network `yaml:"networks"`

	Profiles map[string]figure3Profile `yaml:"profiles"`
}

// figure3Network is one half of the figure.
type figure3Network struct {
	Name      string         `yaml:"name" want:"name,key"`
	Model     workload.Model `yaml:"model"`            // as the paper has it
	Base      string         `yaml:"base" want:"name"` // the scenario that is 1
	Scenarios []scenario     `yaml:"scenarios"`
}

// scenario is a way to run a network.
type scenario struct {
	Name            string `yaml:"name" want:"name,key"`
	suite.SetupSpec `yaml:",inline"`
	Paper           suite.Verbatim  `yaml:"paper"`
	Torchgpipe      *suite.Verbatim `yaml:"torchgpipe"`

	setup workload.Setup
}

type figure3Profile struct {
	Expected suite.Span       `yaml:"expected"`
	Models   []workload.Model `yaml:"models"` // one for each network
	Batch    int              `yaml:"batch"`
	Rounds   int              `yaml:"rounds" want:"1..1000"`
	Naive    int              `yaml:"naive_steps" want:"1..1000"` // of a baseline in a round, whose tasks are too few for a median; of pipelines 1
	WarmUp   int              `yaml:"warm_up" want:"0..1000"`
}

// Figure3 times scenarios of two networks on emulated devices.
type Figure3 struct {
	suite.Base[figure3Spec]
}

func (f *Figure3) Resolve() *suite.Problem {
	if m := f.Spec.Modelled; m.Most < m.Batch {
		return suite.At(fmt.Errorf("at most %d examples: want %d or more", m.Most, m.Batch), "modelled", "most")
	}
	for i := range f.Spec.Networks {
		n := &f.Spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			s.setup = s.SetupSpec.Setup()
			if s.Schedule != "naive" {
				s.setup.MicroBatches = f.Spec.M
			}
			s.setup.Device, s.setup.Threads = gpipe.Emulated, 1
		}
		if base := n.scenario(n.Base); base == nil || base.Paper.Value != 1 {
			return suite.At(errors.New("want the scenario whose value in the paper is 1"), "networks", fmt.Sprint(i), "base")
		}
	}
	for _, name := range suite.Profiles {
		p := f.Spec.Profiles[name]
		switch {
		case len(p.Models) != len(f.Spec.Networks):
			return suite.At(fmt.Errorf("%d models for %d networks: want one for each", len(p.Models), len(f.Spec.Networks)), "profiles", name, "models")
		case p.Batch%f.Spec.M != 0:
			return suite.At(fmt.Errorf("%d micro-batches of %d examples are not of one size", f.Spec.M, p.Batch), "profiles", name, "batch")
		}
	}
	return nil
}

func (n *figure3Network) scenario(name string) *scenario {
	for i := range n.Scenarios {
		if n.Scenarios[i].Name == name {
			return &n.Scenarios[i]
		}
	}
	return nil
}

func figure3Run(n *figure3Network, s *scenario) string { return n.Name + "/" + s.Name }

// Rounds are those of a profile.
func (f *Figure3) Rounds(profile figure3Profile) *rounds.Rounds {
	r := &rounds.Rounds{ID: f.ID(), Count: profile.Rounds, WarmUp: profile.WarmUp, Seed: f.Spec.Seed}
	for i := range f.Spec.Networks {
		n := &f.Spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			steps := 1
			if s.setup.MicroBatches == 1 {
				steps = profile.Naive
			}
			r.Runs = append(r.Runs, rounds.Run{
				Name:  figure3Run(n, s),
				Bench: fmt.Sprintf("model=%s/scenario=%s", profile.Models[i].Name, s.Name),
				Training: workload.Training{
					Model: profile.Models[i], Batch: profile.Batch,
					Optimizer: f.Spec.Optimizer, LR: f.Spec.LR, LRSchedule: "constant",
					Setup: s.setup,
				},
				Steps: steps,
			})
		}
	}
	return r
}

func (f *Figure3) Repeated(profile string) (rounds.Repeated, error) {
	p, err := suite.ProfileOf(f.Spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return f.Rounds(p), nil
}

func (f *Figure3) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	r, err := f.Repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	for i := range f.Spec.Networks {
		n := &f.Spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			if err := f.Spec.Modelled.Measure(ctx, log, figure3Run(n, s), n.Model, s.setup); err != nil {
				return err
			}
		}
	}
	return rounds.InThisProcess(ctx, r, log, p)
}

func (f *Figure3) Planned(profile string) []suite.PlannedRun {
	list := f.Rounds(f.Spec.Profiles[profile]).Planned(profile)
	for i, n := range f.Spec.Networks {
		for j, s := range n.Scenarios {
			list = append(list, suite.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "scenarios", fmt.Sprint(j)}, Run: suite.ModelledRun{Model: n.Model, Most: s.setup.Partitions}})
		}
	}
	return list
}
