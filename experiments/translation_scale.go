package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
)

// scaleSpec is translation_scale.yaml.
type scaleSpec struct {
	head        `yaml:",inline"`
	Setup       setupSpec               `yaml:"setup"`
	Batches     []scaledBatch           `yaml:"batches"` // the first is the smallest
	Networks    []scaledNetwork         `yaml:"networks"`
	Differences []networkPair           `yaml:"differences" want:"optional"`
	Profiles    map[string]scaleProfile `yaml:"profiles"`
}

// scaledBatch is a column of the paper's Table 5, and what stands for it here.
type scaledBatch struct {
	Paper string   `yaml:"paper"` // tokens
	BLEU  verbatim `yaml:"bleu"`
	NLL   verbatim `yaml:"nll"`
	Times int      `yaml:"times"` // the smallest batch
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

type scaleProfile struct {
	Expected span     `yaml:"expected"`
	Seeds    []uint64 `yaml:"seeds"`
	Data     struct {
		Languages int `yaml:"languages"`
		Low       int `yaml:"low"` // languages that count as low-resource: the last ones
		Pairs     int `yaml:"pairs"`
		Nouns     int `yaml:"nouns"`
		HeldOut   int `yaml:"held_out"` // pairs of each language
	} `yaml:"data"`
	SmallestBatch int          `yaml:"smallest_batch"` // pairs
	Training      trainingSpec `yaml:"training"`       // of the networks; its model is the small one
}

// scale trains translators with several mini-batches, and several translators
// with one.
type scale struct {
	spec  scaleSpec
	text  string
	setup Setup
}

func loadScale(from ...SpecFile) (Experiment, error) {
	s := &scale{}
	var err error
	s.text, err = loadSpec("translation_scale.yaml", from, &s.spec, s.check)
	return s, err
}

func (s *scale) check() *specProblem {
	var err error
	if s.setup, err = s.spec.Setup.setup(); err != nil {
		return at(err, "setup")
	}
	switch {
	case s.setup.Device != gpipe.Host:
		return at(errors.New("trainings run beside one another: want host devices"), "setup")
	case len(s.spec.Batches) < 2:
		return at(errors.New("want a smallest batch and something to compare"), "batches")
	}
	for i, b := range s.spec.Batches {
		if i == 0 && b.Times != 1 || i > 0 && b.Times <= s.spec.Batches[i-1].Times {
			return at(errors.New("want 1 at first, then larger and larger"), "batches", fmt.Sprint(i), "times")
		}
	}
	for i, d := range s.spec.Differences {
		for _, end := range []struct{ key, name string }{{"of", d.Of}, {"to", d.To}} {
			if s.network(end.name) < 0 {
				return at(fmt.Errorf("no network %q", end.name), "differences", fmt.Sprint(i), end.key)
			}
		}
	}
	if p := checkTrials(s.spec.Profiles, func(p scaleProfile) trainingSpec { return p.Training }); p != nil {
		return p
	}
	for _, name := range Profiles {
		if p := s.checkProfile(s.spec.Profiles[name]); p != nil {
			return p.in("profiles", name)
		}
	}
	return nil
}

func (s *scale) checkProfile(p scaleProfile) *specProblem {
	m := p.Training.Model
	switch {
	case m.Name != translator:
		return at(fmt.Errorf("want %s", translator), "training", "model", "name")
	case m.HeadDim < 1:
		return at(errors.New("want 1 or more, as it stays where there are more heads"), "training", "model")
	case p.Data.Low < 1 || p.Data.Low >= p.Data.Languages:
		return at(fmt.Errorf("%d low-resource languages of %d: want 1 or more, and others", p.Data.Low, p.Data.Languages), "data", "low")
	case p.SmallestBatch < s.setup.MicroBatches:
		return at(fmt.Errorf("%d pairs: want %d or more, one for each micro-batch", p.SmallestBatch, s.setup.MicroBatches), "smallest_batch")
	case p.Training.Batch < s.setup.MicroBatches:
		return at(fmt.Errorf("%d pairs: want %d or more, one for each micro-batch", p.Training.Batch, s.setup.MicroBatches), "training", "batch")
	}
	if err := (datasets.Config{SeqLen: m.Seq, Multilingual: p.languages(), Translation: datasets.TranslationConfig{HeldOut: p.Data.HeldOut}}).Validate(); err != nil {
		return at(err, "data")
	}
	return nil
}

// network is a network's place in the spec, -1 if it is not there.
func (s *scale) network(name string) int {
	return slices.IndexFunc(s.spec.Networks, func(n scaledNetwork) bool { return n.Name == name })
}

func (s *scale) ID() string    { return s.spec.Experiment }
func (s *scale) Title() string { return s.spec.Title }

func (s *scale) Expected(profile string) time.Duration {
	return time.Duration(s.spec.Profiles[profile].Expected)
}

func (s *scale) Key(profile string) Key {
	return key(s.ID(), profile, s.text)
}

func (p scaleProfile) languages() datasets.MultilingualConfig {
	return datasets.MultilingualConfig{Languages: p.Data.Languages, Pairs: p.Data.Pairs, Nouns: p.Data.Nouns}
}

// scaled is a profile's model as a network of the spec has it.
func (n scaledNetwork) scaled(m Model) Model {
	m.Layers *= n.Layers
	m.FF *= n.Width
	m.Heads *= n.Width
	return m
}

func (s *scale) arm(p scaleProfile, name string, change func(*Training)) arm {
	return arm{name, func(seed uint64) Training {
		t := p.Training.training("synthetic-translation", s.setup, seed)
		t.Multilingual = p.languages()
		t.Translation.HeldOut = p.Data.HeldOut
		change(&t)
		return t
	}}
}

// batches are the arms of Table 5, with the profile's model as it is.
func (s *scale) batches(p scaleProfile) []arm {
	var arms []arm
	for _, b := range s.spec.Batches {
		pairs := b.Times * p.SmallestBatch
		arms = append(arms, s.arm(p, fmt.Sprintf("batch of %d", pairs), func(t *Training) { t.Batch = pairs }))
	}
	return arms
}

// networks are the arms of Figure 3.
func (s *scale) networks(p scaleProfile) []arm {
	var arms []arm
	for _, n := range s.spec.Networks {
		arms = append(arms, s.arm(p, n.Name, func(t *Training) { t.Model = n.scaled(t.Model) }))
	}
	return arms
}

func (s *scale) Measure(ctx context.Context, log *Log, p Progress) error {
	profile, err := profileOf(s.spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	return runTrials(ctx, s.ID(), append(s.batches(profile), s.networks(profile)...), profile.Seeds, log, p)
}
