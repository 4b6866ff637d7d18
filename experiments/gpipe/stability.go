package gpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

func (s *stability) Planned(profile string) []lab.PlannedRun {
	p := s.Spec.Profiles[profile]
	return trained.PlannedArms(profile, s.arms(p), p.Seeds)
}

// stabilitySpec is spec.yaml.
type stabilitySpec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec            `yaml:"setup"`
	Variants []stabilityVariant       `yaml:"variants"`
	Diverges stabilityDivergence      `yaml:"diverges"`
	Profiles map[string]stabilitySize `yaml:"profiles"`
}

// stabilityVariant has some of the paper's cures.
type stabilityVariant struct {
	Name       string  `yaml:"name" want:"name,key"`
	ScaledInit bool    `yaml:"scaled_init"`
	ClipLogits float64 `yaml:"clip_logits"`
}

type stabilitySize struct {
	trained.Profile `yaml:",inline"`
	Probe           struct {
		Every    int `yaml:"every"`    // steps
		Examples int `yaml:"examples"` // held-out pairs to look at activations of
	} `yaml:"probe"`
	Data lab.PairsSpec `yaml:"data"`
}

// stabilityDivergence defines when a run diverges.
type stabilityDivergence struct {
	After  int     `yaml:"after"`
	Window int     `yaml:"window"`
	Loss   float64 `yaml:"loss" want:">0.."`
}

// at returns the first step, from 1, at which a run with these losses has diverged, or
// 0. A value that is not finite ends a run, whose record says so.
func (d stabilityDivergence) at(losses []float64) int {
	for step := max(d.After, d.Window); step <= len(losses); step++ {
		if stats.Mean(losses[step-d.Window:step]) > d.Loss {
			return step
		}
	}
	return 0
}

// stability trains a deep network on noisy targets in several variants.
type stability struct {
	lab.Base[stabilitySpec]
	setup train.Setup
}

func (s *stability) Resolve() *lab.Problem {
	s.setup = s.Spec.Setup.Setup()
	if err := trained.CheckSetup(s.setup); err != nil {
		return lab.At(err, "setup")
	}
	if p := trained.Check(s.Spec.Profiles); p != nil {
		return p
	}
	for _, name := range lab.Profiles {
		if s.Spec.Profiles[name].Training.Model.Name != train.Translator {
			return lab.At(fmt.Errorf("want %s", train.Translator), "profiles", name, "training", "model")
		}
	}
	return nil
}

// stabilityRecord is one training. Values that are not finite end it and are not
// in it.
type stabilityRecord struct {
	Losses    []float64         `json:"losses"`
	GradNorms []float64         `json:"grad_norms"`
	Probes    []stabilityProbed `json:"probes"`
	NonFinite string            `json:"non_finite,omitempty"` // what ended the run at the step after the last
	HeldOut   float64           `json:"held_out"`             // nats per target without noise; 0: the run had ended
	Uniform   float64           `json:"uniform"`              // what guessing costs
	Params    int64             `json:"params"`
	Seconds   float64           `json:"seconds"`
}

// Check requires a gradient's norm for each loss, and losses unless the first step
// ended the run.
func (r *stabilityRecord) Check() error {
	if len(r.GradNorms) != len(r.Losses) || r.NonFinite == "" && len(r.Losses) == 0 {
		return fmt.Errorf("%d losses and %d norms of gradients", len(r.Losses), len(r.GradNorms))
	}
	return nil
}

// stabilityProbed describes the activations, on the same held-out pairs each time and without
// dropout.
type stabilityProbed struct {
	Step int `json:"step"`
	// Hidden is the kurtosis of what the softmax layer reads, and Logits that of
	// the logits: 3 for normal values, more where few are far out.
	Hidden float64 `json:"hidden_kurtosis"`
	Logits float64 `json:"logit_kurtosis"`
	// Largest is the largest magnitude of a logit before it is clipped.
	Largest float64 `json:"largest_logit"`
}

// Cure sets a network's cures.
func (v stabilityVariant) Cure(m *train.Model) {
	m.ScaledInit, m.ClipLogits = v.ScaledInit, v.ClipLogits
}

func (v stabilityVariant) sample(seed uint64) string { return trained.Arm{Name: v.Name}.Sample(seed) }

// arms are the variants.
func (s *stability) arms(p stabilitySize) (arms []trained.Arm) {
	for _, v := range s.Spec.Variants {
		arms = append(arms, trained.Arm{Name: v.Name, Training: func(seed uint64) train.Training {
			t := p.Training.Training("synthetic-translation", s.setup, seed)
			v.Cure(&t.Model)
			t.Config = p.Data.Config()
			return t
		}})
	}
	return arms
}

func (s *stability) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(s.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	return trained.Each(ctx, s.ID(), s.arms(profile), profile.Seeds, log, p, func(ctx context.Context, t train.Training) (any, string, error) {
		r, err := profile.train(ctx, t)
		if err != nil {
			return nil, "", err
		}
		return r, fmt.Sprintf("%d steps, held-out loss %.3f", len(r.Losses), r.HeldOut), nil
	})
}

// train makes a run. It looks at activations on the way and at the end.
func (p stabilitySize) train(ctx context.Context, t train.Training) (*stabilityRecord, error) {
	start := time.Now()
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	pairs := l.Source.(*datasets.Translation)
	probe, err := stabilityNewProbe(l.Pipeline, pairs, p.Probe.Examples)
	if err != nil {
		return nil, err
	}
	defer probe.trainer.Close()

	r := &stabilityRecord{Uniform: math.Log(float64(pairs.Vocab())), Params: nn.CountParams(l.Pipeline.Layers)}
	err = l.Run(ctx, train.Hooks{
		Report: r,
		At: func(done int) error {
			if done%p.Probe.Every != 0 && done < l.Steps {
				return nil
			}
			return r.probe(ctx, probe, l.Trainer, done)
		},
		After: func(step *train.TrainStep) error {
			r.Losses = append(r.Losses, step.Loss)
			r.GradNorms = append(r.GradNorms, step.GradNorm)
			return nil
		},
	})
	var bad *gpipe.NonFiniteError
	switch {
	case errors.As(err, &bad):
		r.NonFinite = bad.Error()
	case err != nil:
		return nil, err
	default:
		e, err := l.Evaluate(ctx)
		if err != nil {
			return nil, err
		}
		r.HeldOut = e.Loss
	}
	r.Seconds = l.Earlier() + time.Since(start).Seconds()
	return r, nil
}

func (r *stabilityRecord) probe(ctx context.Context, p *stabilityProbe, trainer *gpipe.Trainer, step int) error {
	at, err := p.look(ctx, trainer)
	if err != nil {
		return err
	}
	at.Step = step
	if !math.IsNaN(at.Hidden) && !math.IsNaN(at.Logits) && !math.IsInf(at.Largest, 0) {
		r.Probes = append(r.Probes, at)
	}
	return nil
}

// stabilityProbe shows what a translator's softmax layer reads: it is the network
// without that layer, given the weights of the one that trains.
type stabilityProbe struct {
	trainer *gpipe.Trainer
	batch   nn.Batch
}

// stabilityNewProbe makes the probe of a network on the first held-out pairs of the
// first language.
func stabilityNewProbe(p gpipe.Pipeline, s *datasets.Translation, examples int) (*stabilityProbe, error) {
	pairs := s.Pairs(0, datasets.HeldOut)
	b := s.Collate(pairs[:min(examples, len(pairs))])
	layers := slices.Clone(p.Layers)
	layers[len(layers)-1] = stabilityDecoderStates{}
	// The loss is never computed.
	t, err := gpipe.Pipeline{Layers: layers, Loss: p.Loss, Numerics: gpipe.Numerics{Seed: p.Seed}, Predicting: gpipe.InputOf(b)}.Open(gpipe.Input{})
	return &stabilityProbe{t, b}, err
}

// stabilityDecoderStates replaces the softmax layer: of source, lengths and target it returns
// the target.
type stabilityDecoderStates struct{}

func (stabilityDecoderStates) Name() string { return "states" }

func (stabilityDecoderStates) Params() []*nn.Param { return nil }

func (stabilityDecoderStates) Forward(_ *nn.Trace, in ...*graph.Node) []*graph.Node {
	return in[len(in)-1:]
}

// look copies the weights, and examines the positions that have a target.
func (p *stabilityProbe) look(ctx context.Context, from *gpipe.Trainer) (stabilityProbed, error) {
	weights := map[string][]float32{}
	for _, w := range from.Weights() {
		weights[w.Path] = w.Data
	}
	for _, w := range p.trainer.Weights() {
		copy(w.Data, weights[w.Path])
	}
	out, err := p.trainer.Predict(ctx, p.batch.Inputs...)
	if err != nil {
		return stabilityProbed{}, err
	}
	dim := out[0].Shape[2]
	weight, bias := weights["softmax/weight"], weights["softmax/bias"]
	var states, logits []float64
	var largest float64
	for at, target := range p.batch.Targets[0].I32 {
		if target < 0 {
			continue
		}
		x := out[0].F32[at*dim : (at+1)*dim]
		for _, v := range x {
			states = append(states, float64(v))
		}
		for token := range bias {
			y := float64(bias[token])
			for i, w := range weight[token*dim : (token+1)*dim] {
				y += float64(w) * float64(x[i])
			}
			logits = append(logits, y)
			largest = max(largest, math.Abs(y))
		}
	}
	return stabilityProbed{Hidden: stabilityKurtosis(states), Logits: stabilityKurtosis(logits), Largest: largest}, nil
}

// stabilityKurtosis is the fourth central moment over the square of the second: 3 of a normal
// distribution.
func stabilityKurtosis(xs []float64) float64 {
	return stat.Moment(4, xs, nil) / math.Pow(stat.Moment(2, xs, nil), 2)
}
