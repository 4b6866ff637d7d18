// Package translation trains a multilingual translator.
package translation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
)

func (t *translation) Planned(profile string) (list []suite.PlannedRun) {
	for _, sample := range []string{alone, seeing, blind} {
		list = append(list, suite.PlannedRun{Path: []string{"profiles", profile, "training"}, Run: t.training(t.spec.Profiles[profile], sample)})
	}
	return list
}

// translationSpec is translation.yaml.
type translationSpec struct {
	suite.Head `yaml:",inline"`
	Setup      suite.SetupSpec `yaml:"setup"`
	Alone      struct {
		Steps int             `yaml:"steps"`
		Setup suite.SetupSpec `yaml:"setup"`
	} `yaml:"alone"`
	Profiles map[string]translationProfile `yaml:"profiles"`
}

type translationProfile struct {
	Expected   suite.Span         `yaml:"expected"`
	Data       suite.PairsSpec    `yaml:"data"`
	BlindSteps int                `yaml:"blind_steps"` // of the network that sees no source
	Training   suite.TrainingSpec `yaml:"training"`
}

// translation trains an encoder-decoder and holds it against what needs less.
type translation struct {
	spec         translationSpec
	text         string
	setup, alone workload.Setup
}

func Load(from ...suite.SpecFile) (suite.Experiment, error) {
	t := &translation{}
	var err error
	t.text, err = suite.LoadSpec("translation.yaml", from, &t.spec, t.Check)
	return t, err
}

func (t *translation) Check() *suite.Problem {
	var err error
	if t.setup, err = t.spec.Setup.Setup(); err != nil {
		return suite.At(err, "setup")
	}
	if t.alone, err = t.spec.Alone.Setup.Setup(); err != nil {
		return suite.At(err, "alone", "setup")
	}
	if p := suite.CheckProfiles(t.spec.Profiles); p != nil {
		return p
	}
	for _, name := range suite.Profiles {
		switch p := t.spec.Profiles[name]; {
		case t.spec.Alone.Steps < 1 || t.spec.Alone.Steps > p.Training.Steps:
			return suite.At(fmt.Errorf("want 1 to %d, the steps of profile %s", p.Training.Steps, name), "alone", "steps")
		case p.BlindSteps < 1:
			return suite.At(errors.New("want 1 or more"), "profiles", name, "blind_steps")
		}
	}
	return nil
}

func (t *translation) ID() string { return t.spec.Experiment }

func (t *translation) Title() string { return t.spec.Title }

func (t *translation) Expected(profile string) time.Duration {
	return time.Duration(t.spec.Profiles[profile].Expected)
}

func (t *translation) Key(profile string) records.Key {
	return suite.Key(t.ID(), profile, t.text)
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
	*workload.TrainResult
}

// trainings are the profile's, by sample.
func (t *translation) training(p translationProfile, sample string) workload.Training {
	out := p.Training.Training("synthetic-translation", t.setup, t.spec.Seed)
	out.Config = p.Data.Config()
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

func (t *translation) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := suite.ProfileOf(t.spec.Profiles, log.Key.Profile)
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
		if s.TrainResult, err = training.Run(ctx, func(step workload.TrainStep) { p.Advance(fmt.Sprintf("loss %.4f", step.Loss)) }); err != nil {
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
