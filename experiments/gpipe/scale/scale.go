// Package scale trains translators of the paper's proportions: larger batches, deeper
// and wider networks.
package scale

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/trials"
	"gpipebench/experiments/workload"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "translation-scale", Folder: folder, New: suite.New[scale]}

func (s *scale) Planned(profile string) []suite.PlannedRun {
	p := s.Spec.Profiles[profile]
	return trials.PlannedArms(profile, s.arms(p), p.Seeds)
}

// spec is spec.yaml.
type spec struct {
	suite.Head  `yaml:",inline"`
	Setup       suite.SetupSpec    `yaml:"setup"`
	Batches     []scaledBatch      `yaml:"batches"` // the first is the smallest
	Networks    []scaledNetwork    `yaml:"networks"`
	Differences []networkPair      `yaml:"differences" want:"optional"`
	Profiles    map[string]profile `yaml:"profiles"`
}

// scaledBatch is a column of the paper's Table 5, and what stands for it here.
type scaledBatch struct {
	Paper string         `yaml:"paper"` // tokens
	BLEU  suite.Verbatim `yaml:"bleu"`
	NLL   suite.Verbatim `yaml:"nll"`
	Times int            `yaml:"times"` // the smallest batch
}

// scaledNetwork is a network of the paper's, and what stands for it here:
// multiples of a profile's model.
type scaledNetwork struct {
	Name       string `yaml:"name" want:"name,key"`
	Paper      string `yaml:"paper"` // T(L, H, A)
	Parameters string `yaml:"parameters"`
	Layers     int    `yaml:"layers"` // times its layers
	Width      int    `yaml:"width"`  // times its feed-forward dimension and heads
}

// networkPair names two networks whose scores are compared by seed.
type networkPair struct {
	Of string `yaml:"of" want:"name"`
	To string `yaml:"to" want:"name"`
}

func (d networkPair) String() string { return d.Of + " - " + d.To }

type profile struct {
	trials.Profile `yaml:",inline"` // its training is the networks', with the small one's model
	Data           struct {
		suite.PairsSpec `yaml:",inline"`
		Low             int `yaml:"low"` // languages that count as low-resource: the last ones
	} `yaml:"data"`
	SmallestBatch int `yaml:"smallest_batch"` // pairs
}

// scale trains translators with several mini-batches, and several translators
// with one.
type scale struct {
	suite.Base[spec]
	setup workload.Setup
}

func (s *scale) Resolve() *suite.Problem {
	s.setup = s.Spec.Setup.Setup()
	if err := trials.CheckSetup(s.setup); err != nil {
		return suite.At(err, "setup")
	}
	if len(s.Spec.Batches) < 2 {
		return suite.At(errors.New("want a smallest batch and something to compare"), "batches")
	}
	for i, b := range s.Spec.Batches {
		if i == 0 && b.Times != 1 || i > 0 && b.Times <= s.Spec.Batches[i-1].Times {
			return suite.At(errors.New("want 1 at first, then larger and larger"), "batches", fmt.Sprint(i), "times")
		}
	}
	for i, d := range s.Spec.Differences {
		for _, end := range []struct{ key, name string }{{"of", d.Of}, {"to", d.To}} {
			if s.network(end.name) < 0 {
				return suite.At(fmt.Errorf("no network %q", end.name), "differences", fmt.Sprint(i), end.key)
			}
		}
	}
	if p := trials.Check(s.Spec.Profiles); p != nil {
		return p
	}
	for _, name := range suite.Profiles {
		if p := s.checkProfile(s.Spec.Profiles[name]); p != nil {
			return p.In("profiles", name)
		}
	}
	return nil
}

func (s *scale) checkProfile(p profile) *suite.Problem {
	m := p.Training.Model
	switch {
	case m.Name != workload.Translator:
		return suite.At(fmt.Errorf("want %s", workload.Translator), "training", "model", "name")
	case m.HeadDim < 1:
		return suite.At(errors.New("want 1 or more, as it stays where there are more heads"), "training", "model")
	case p.Data.Low < 1 || p.Data.Low >= p.Data.Languages:
		return suite.At(fmt.Errorf("%d low-resource languages of %d: want 1 or more, and others", p.Data.Low, p.Data.Languages), "data", "low")
	case p.SmallestBatch < s.setup.MicroBatches:
		return suite.At(fmt.Errorf("%d pairs: want %d or more, one for each micro-batch", p.SmallestBatch, s.setup.MicroBatches), "smallest_batch")
	case p.Training.Batch < s.setup.MicroBatches:
		return suite.At(fmt.Errorf("%d pairs: want %d or more, one for each micro-batch", p.Training.Batch, s.setup.MicroBatches), "training", "batch")
	}
	data := p.Data.Config()
	data.SeqLen = m.Seq
	if err := data.Validate(); err != nil {
		return suite.At(err, "data")
	}
	return nil
}

// network is a network's place in the spec, -1 if it is not there.
func (s *scale) network(name string) int {
	return slices.IndexFunc(s.Spec.Networks, func(n scaledNetwork) bool { return n.Name == name })
}

// scaled is a profile's model as a network of the spec has it.
func (n scaledNetwork) scaled(m workload.Model) workload.Model {
	m.Layers *= n.Layers
	m.FF *= n.Width
	m.Heads *= n.Width
	return m
}

// arms are those of Table 5, with the profile's model as it is, and then those of
// Figure 3.
func (s *scale) arms(p profile) (arms []trials.Arm) {
	add := func(name string, change func(*workload.Training)) {
		arms = append(arms, trials.Arm{Name: name, Training: func(seed uint64) workload.Training {
			t := p.Training.Training("synthetic-translation", s.setup, seed)
			t.Config = p.Data.Config()
			change(&t)
			return t
		}})
	}
	for _, b := range s.Spec.Batches {
		pairs := b.Times * p.SmallestBatch
		add(fmt.Sprintf("batch of %d", pairs), func(t *workload.Training) { t.Batch = pairs })
	}
	for _, n := range s.Spec.Networks {
		add(n.Name, func(t *workload.Training) { t.Model = n.scaled(t.Model) })
	}
	return arms
}

func (s *scale) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := suite.ProfileOf(s.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	return trials.Run(ctx, s.ID(), s.arms(profile), profile.Seeds, log, p)
}
