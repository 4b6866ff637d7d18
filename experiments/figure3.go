package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpipebench/gpipe"
)

// figure3Spec is figure3.yaml.
type figure3Spec struct {
	head       `yaml:",inline"`
	Torchgpipe string           `yaml:"torchgpipe"`        // source of its values
	M          int              `yaml:"m" want:"1..65536"` // of the pipelines
	Optimizer  string           `yaml:"optimizer" want:"optimizer"`
	LR         float64          `yaml:"lr" want:">0.."`
	Modelled   modelledSpec     `yaml:"modelled"`
	Networks   []figure3Network `yaml:"networks"`

	Profiles map[string]figure3Profile `yaml:"profiles"`
}

// figure3Network is one half of the figure.
type figure3Network struct {
	Name      string     `yaml:"name" want:"name,key"`
	Model     Model      `yaml:"model"`            // as the paper has it
	Base      string     `yaml:"base" want:"name"` // the scenario that is 1
	Scenarios []scenario `yaml:"scenarios"`
}

// scenario is a way to run a network.
type scenario struct {
	Name       string `yaml:"name" want:"name,key"`
	setupSpec  `yaml:",inline"`
	Paper      verbatim  `yaml:"paper"`
	Torchgpipe *verbatim `yaml:"torchgpipe"`

	setup Setup
}

type figure3Profile struct {
	Expected span    `yaml:"expected"`
	Models   []Model `yaml:"models"` // one for each network
	Batch    int     `yaml:"batch"`
	Rounds   int     `yaml:"rounds" want:"1..1000"`
	Naive    int     `yaml:"naive_steps" want:"1..1000"` // of a baseline in a round, whose tasks are too few for a median; of pipelines 1
	WarmUp   int     `yaml:"warm_up" want:"0..1000"`
}

// figure3 times scenarios of two networks on emulated devices.
type figure3 struct {
	spec figure3Spec
	text string
}

func loadFigure3(from ...SpecFile) (Experiment, error) {
	f := &figure3{}
	var err error
	f.text, err = loadSpec("figure3.yaml", from, &f.spec, f.check)
	return f, err
}

func (f *figure3) check() *specProblem {
	if m := f.spec.Modelled; m.Most < m.Batch {
		return at(fmt.Errorf("at most %d examples: want %d or more", m.Most, m.Batch), "modelled", "most")
	}
	for i := range f.spec.Networks {
		n := &f.spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			var err error
			if s.setup, err = s.setupSpec.setup(); err != nil {
				return at(err, "networks", fmt.Sprint(i), "scenarios", fmt.Sprint(j))
			}
			if s.Schedule != "naive" {
				s.setup.MicroBatches = f.spec.M
			}
			s.setup.Device, s.setup.Threads = gpipe.Emulated, 1
		}
		if base := n.scenario(n.Base); base == nil || base.Paper.Value != 1 {
			return at(errors.New("want the scenario whose value in the paper is 1"), "networks", fmt.Sprint(i), "base")
		}
	}
	if p := checkProfiles(f.spec.Profiles); p != nil {
		return p
	}
	for _, name := range Profiles {
		p := f.spec.Profiles[name]
		switch {
		case len(p.Models) != len(f.spec.Networks):
			return at(fmt.Errorf("%d models for %d networks: want one for each", len(p.Models), len(f.spec.Networks)), "profiles", name, "models")
		case p.Batch%f.spec.M != 0:
			return at(fmt.Errorf("%d micro-batches of %d examples are not of one size", f.spec.M, p.Batch), "profiles", name, "batch")
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

func (f *figure3) ID() string    { return f.spec.Experiment }
func (f *figure3) Title() string { return f.spec.Title }

func (f *figure3) Expected(profile string) time.Duration {
	return time.Duration(f.spec.Profiles[profile].Expected)
}

func (f *figure3) Key(profile string) Key {
	return key(f.ID(), profile, f.text+acceleratorText(f.spec.Modelled.Accelerator))
}

func figure3Run(n *figure3Network, s *scenario) string { return n.Name + "/" + s.Name }

// rounds are those of a profile.
func (f *figure3) rounds(profile figure3Profile) *rounds {
	r := &rounds{id: f.ID(), count: profile.Rounds, warmUp: profile.WarmUp, seed: f.spec.Seed}
	for i := range f.spec.Networks {
		n := &f.spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			steps := 1
			if s.setup.MicroBatches == 1 {
				steps = profile.Naive
			}
			r.runs = append(r.runs, timedRun{
				name:  figure3Run(n, s),
				bench: fmt.Sprintf("model=%s/scenario=%s", profile.Models[i].Name, s.Name),
				training: Training{
					Model: profile.Models[i], Batch: profile.Batch,
					Optimizer: f.spec.Optimizer, LR: f.spec.LR, LRSchedule: "constant",
					Setup: s.setup,
				},
				steps: steps,
			})
		}
	}
	return r
}

func (f *figure3) repeated(profile string) (repeated, error) {
	p, err := profileOf(f.spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return f.rounds(p), nil
}

func (f *figure3) Measure(ctx context.Context, log *Log, p Progress) error {
	r, err := f.repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	for i := range f.spec.Networks {
		n := &f.spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			if err := f.spec.Modelled.measure(ctx, log, figure3Run(n, s), n.Model, s.setup); err != nil {
				return err
			}
		}
	}
	return inThisProcess(ctx, r, log, p)
}
