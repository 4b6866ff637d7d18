package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpipebench/datasets"
)

// translationSpec is translation.yaml.
type translationSpec struct {
	head  `yaml:",inline"`
	Setup setupSpec `yaml:"setup"`
	Alone struct {
		Steps int       `yaml:"steps"`
		Setup setupSpec `yaml:"setup"`
	} `yaml:"alone"`
	Profiles map[string]translationProfile `yaml:"profiles"`
}

type translationProfile struct {
	Expected span `yaml:"expected"`
	Data     struct {
		Languages int `yaml:"languages"`
		Pairs     int `yaml:"pairs"`
		HeldOut   int `yaml:"held_out"` // pairs of each language
	} `yaml:"data"`
	BlindSteps int          `yaml:"blind_steps"` // of the network that sees no source
	Training   trainingSpec `yaml:"training"`
}

// translation trains an encoder-decoder and holds it against what needs less.
type translation struct {
	spec         translationSpec
	text         string
	setup, alone Setup
}

func loadTranslation(from ...SpecFile) (Experiment, error) {
	t := &translation{}
	var err error
	t.text, err = loadSpec("translation.yaml", from, &t.spec, t.check)
	return t, err
}

func (t *translation) check() *specProblem {
	var err error
	if t.setup, err = t.spec.Setup.setup(); err != nil {
		return at(err, "setup")
	}
	if t.alone, err = t.spec.Alone.Setup.setup(); err != nil {
		return at(err, "alone", "setup")
	}
	if p := checkProfiles(t.spec.Profiles); p != nil {
		return p
	}
	for _, name := range Profiles {
		switch p := t.spec.Profiles[name]; {
		case t.spec.Alone.Steps < 1 || t.spec.Alone.Steps > p.Training.Steps:
			return at(fmt.Errorf("want 1 to %d, the steps of profile %s", p.Training.Steps, name), "alone", "steps")
		case p.BlindSteps < 1:
			return at(errors.New("want 1 or more"), "profiles", name, "blind_steps")
		}
	}
	return nil
}

func (t *translation) ID() string    { return t.spec.Experiment }
func (t *translation) Title() string { return t.spec.Title }

func (t *translation) Expected(profile string) time.Duration {
	return time.Duration(t.spec.Profiles[profile].Expected)
}

func (t *translation) Key(profile string) Key {
	return key(t.ID(), profile, t.text)
}

// The samples: the network, the same one that sees no source, and the first
// steps of the network again without a pipeline.
const (
	seeing = "network"
	blind  = "no source"
	alone  = "alone"
)

// translationSample is one training.
type translationSample struct {
	Seconds float64 `json:"seconds"` // that it took on this machine
	*TrainResult
}

// trainings are the profile's, by sample.
func (t *translation) training(p translationProfile, sample string) Training {
	out := p.Training.training("synthetic-translation", t.setup, t.spec.Seed)
	out.Multilingual = datasets.MultilingualConfig{Languages: p.Data.Languages, Pairs: p.Data.Pairs}
	out.Translation.HeldOut = p.Data.HeldOut
	switch sample {
	case seeing:
		out.HashAfter = t.spec.Alone.Steps
	case blind:
		out.EmptySource, out.Steps = true, p.BlindSteps
	case alone:
		out.Steps, out.Setup = t.spec.Alone.Steps, t.alone
	}
	return out
}

func (t *translation) Measure(ctx context.Context, log *Log, p Progress) error {
	profile, err := profileOf(t.spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for _, sample := range []string{alone, seeing, blind} {
		if log.Has(sample) {
			continue
		}
		training := t.training(profile, sample)
		s := &translationSample{}
		p.Begin("translation, "+sample, training.Steps)
		start := time.Now()
		if s.TrainResult, err = training.Run(ctx, func(step TrainStep) { p.Advance(fmt.Sprintf("loss %.4f", step.Loss)) }); err != nil {
			return fmt.Errorf("translation, %s: %w", sample, err)
		}
		s.Seconds = time.Since(start).Seconds()
		if err := log.Add(sample, t.spec.Seed, s); err != nil {
			return err
		}
		p.End()
	}
	return nil
}
