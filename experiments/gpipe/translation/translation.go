// Package translation trains a multilingual translator.
package translation

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "translation", Folder: folder, New: lab.New[translation]}

func (t *translation) Planned(profile string) (list []lab.PlannedRun) {
	for _, sample := range []string{alone, seeing, blind} {
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile, "training"}, Run: t.training(t.Spec.Profiles[profile], sample)})
	}
	return list
}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec `yaml:"setup"`
	Alone    struct {
		Steps int           `yaml:"steps"`
		Setup lab.SetupSpec `yaml:"setup"`
	} `yaml:"alone"`
	Profiles map[string]size `yaml:"profiles"`
}

type size struct {
	Expected   lab.Span         `yaml:"expected" want:"shown"`
	Data       lab.PairsSpec    `yaml:"data"`
	BlindSteps int              `yaml:"blind_steps"` // of the network that sees no source
	Training   lab.TrainingSpec `yaml:"training"`
}

// translation trains an encoder-decoder and compares it with baselines.
type translation struct {
	lab.Base[spec]
	setup, alone train.Setup
}

func (t *translation) Resolve() *lab.Problem {
	t.setup, t.alone = t.Spec.Setup.Setup(), t.Spec.Alone.Setup.Setup()
	for _, name := range lab.Profiles {
		switch p := t.Spec.Profiles[name]; {
		case t.Spec.Alone.Steps < 1 || t.Spec.Alone.Steps > p.Training.Steps:
			return lab.At(fmt.Errorf("want 1 to %d, the steps of profile %s", p.Training.Steps, name), "alone", "steps")
		case p.BlindSteps < 1:
			return lab.At(errors.New("want 1 or more"), "profiles", name, "blind_steps")
		}
	}
	return nil
}

// The samples: the network, the same one that sees no source, and the first
// steps of the network again without a pipeline.
const (
	seeing = "network"
	blind  = "no source"
	alone  = "alone"
)

// record is one training.
type record struct{ trained.Whole }

// training is a profile's, by sample.
func (t *translation) training(p size, sample string) train.Training {
	out := p.Training.Training("synthetic-translation", t.setup, t.Spec.Seed)
	out.Config = p.Data.Config()
	switch sample {
	case seeing:
		out.HashAfter = t.Spec.Alone.Steps
	case blind:
		out.EmptySource, out.Steps = true, p.BlindSteps
	case alone:
		out.Steps, out.Setup = t.Spec.Alone.Steps, t.alone
	}
	return out
}

func (t *translation) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for _, sample := range []string{alone, seeing, blind} {
		if log.Has(sample) {
			continue
		}
		s := &record{}
		if err := s.Train(ctx, t.ID(), sample, t.training(profile, sample), log, p); err != nil {
			return err
		}
		if err := log.Add(sample, t.Spec.Seed, s); err != nil {
			return err
		}
	}
	return nil
}
