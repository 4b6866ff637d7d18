package gpipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

func (e *threshold) Planned(profile string) []lab.PlannedRun {
	p := e.Spec.Profiles[profile]
	return trained.PlannedArms(profile, e.arms(p), p.AllSeeds())
}

// thresholdSpec is spec.yaml.
type thresholdSpec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec            `yaml:"setup"`
	Variants []stabilityVariant       `yaml:"variants"`
	Base     string                   `yaml:"base" want:"name"` // the variant that the others are compared with
	Survives thresholdSurvival        `yaml:"survives"`
	Profiles map[string]thresholdSize `yaml:"profiles"`
}

type thresholdSize struct {
	trained.Profile `yaml:",inline"`
	Depths          []thresholdDepth `yaml:"depths"`
	Data            lab.PairsSpec    `yaml:"data"`
}

// thresholdDepth is a number of layers of the encoder, and of the decoder, and its grid.
type thresholdDepth struct {
	Name   string    `yaml:"name" want:"name,key"`
	Layers int       `yaml:"layers"`
	Rates  []float64 `yaml:"rates" want:">0..1000"` // ascending
}

// thresholdSurvival defines when a run survives: it comes to its end, where the mean of its last
// losses is below a loss.
type thresholdSurvival struct {
	Window int     `yaml:"window"` // steps
	Loss   float64 `yaml:"loss" want:">0.."`
}

func (s thresholdSurvival) survived(r *thresholdRecord) bool {
	return r.NonFinite == "" && r.end() < s.Loss
}

// threshold trains every variant at every depth and rate.
type threshold struct {
	lab.Base[thresholdSpec]
	setup train.Setup
}

func (e *threshold) Resolve() *lab.Problem {
	e.setup = e.Spec.Setup.Setup()
	if err := trained.CheckSetup(e.setup); err != nil {
		return lab.At(err, "setup")
	}
	if p := trained.Check(e.Spec.Profiles); p != nil {
		return p
	}
	if !slices.ContainsFunc(e.Spec.Variants, func(v stabilityVariant) bool { return v.Name == e.Spec.Base }) {
		return lab.At(fmt.Errorf("no variant %q", e.Spec.Base), "base")
	}
	for _, name := range lab.Profiles {
		p, window := e.Spec.Profiles[name], e.Spec.Survives.Window
		switch {
		case p.Training.Model.Name != train.Translator:
			return lab.At(fmt.Errorf("want %s", train.Translator), "profiles", name, "training", "model")
		case p.Training.Steps%window != 0:
			return lab.At(fmt.Errorf("want a multiple of %d, the window of survives", window), "profiles", name, "training", "steps")
		}
		for i, d := range p.Depths {
			if len(d.Rates) < 2 || !slices.IsSorted(d.Rates) {
				return lab.At(errors.New("want two or more, from the smallest to the largest"), "profiles", name, "depths", strconv.Itoa(i), "rates")
			}
		}
	}
	return nil
}

// thresholdRecord is one training.
type thresholdRecord struct {
	Losses    []float64 `json:"losses"`               // in nats: the mean of each window of steps
	NonFinite string    `json:"non_finite,omitempty"` // what ended the run at the step after the last
	HeldOut   float64   `json:"held_out"`             // nats per target without noise; 0: the run had ended
	Steps     int       `json:"steps"`
	Params    int64     `json:"params"`
	Seconds   float64   `json:"seconds"`
}

// end is the loss at the end of a run that was not ended before.
func (r *thresholdRecord) end() float64 { return r.Losses[len(r.Losses)-1] }

// Check requires losses unless the run was ended.
func (r *thresholdRecord) Check() error {
	if r.NonFinite == "" && len(r.Losses) == 0 {
		return errors.New("no losses")
	}
	return nil
}

// arm is a variant at a depth and a rate.
func (e *threshold) arm(p thresholdSize, v stabilityVariant, d thresholdDepth, rate float64) trained.Arm {
	return trained.Arm{
		Name: fmt.Sprintf("%s/layers=%d/lr=%s", v.Name, d.Layers, strconv.FormatFloat(rate, 'g', -1, 64)),
		Training: func(seed uint64) train.Training {
			t := p.Training.Training("synthetic-translation", e.setup, seed)
			t.Model.Layers = d.Layers
			v.Cure(&t.Model)
			t.LR *= rate
			t.Config = p.Data.Config()
			return t
		},
	}
}

func (e *threshold) arms(p thresholdSize) (arms []trained.Arm) {
	for _, d := range p.Depths {
		for _, v := range e.Spec.Variants {
			for _, rate := range d.Rates {
				arms = append(arms, e.arm(p, v, d, rate))
			}
		}
	}
	return arms
}

func (e *threshold) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	return trained.Each(ctx, e.ID(), e.arms(profile), profile.AllSeeds(), log, p, func(ctx context.Context, t train.Training) (any, string, error) {
		r, err := e.train(ctx, t)
		switch {
		case err != nil:
			return nil, "", err
		case r.NonFinite != "":
			return r, fmt.Sprintf("ended after %d steps", r.Steps), nil
		case e.Spec.Survives.survived(r):
			return r, fmt.Sprintf("survived, loss %.3g", r.end()), nil
		}
		return r, fmt.Sprintf("diverged, loss %.3g", r.end()), nil
	})
}

// train makes a run.
func (e *threshold) train(ctx context.Context, t train.Training) (*thresholdRecord, error) {
	start := time.Now()
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var so struct {
		Losses []float64 `json:"losses"` // of each step
	}
	err = l.Run(ctx, train.Hooks{Report: &so, After: func(step *train.TrainStep) error {
		so.Losses = append(so.Losses, step.Loss)
		return nil
	}})
	r := &thresholdRecord{Losses: []float64{}, Steps: len(so.Losses), Params: nn.CountParams(l.Pipeline.Layers)}
	for window := range slices.Chunk(so.Losses, e.Spec.Survives.Window) {
		r.Losses = append(r.Losses, stats.Mean(window))
	}
	if err == nil {
		var scores *train.Evaluation
		if scores, err = l.Evaluate(ctx); err == nil {
			r.HeldOut = scores.Loss
		}
	}
	if bad, is := errors.AsType[*gpipe.NonFiniteError](err); is {
		r.NonFinite = bad.Error()
	} else if err != nil {
		return nil, err
	}
	r.Seconds = l.Earlier() + time.Since(start).Seconds()
	return r, nil
}
