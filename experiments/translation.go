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
	return key(t.ID(), profile, t.text, "translation.go")
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

func (t *translation) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(t.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	var own, without, check translationSample
	for sample, into := range map[string]*translationSample{seeing: &own, blind: &without, alone: &check} {
		if err := log.Get(sample, into); err != nil {
			return nil, err
		}
	}
	m := profile.Training.Model
	table := &Table{
		ID: "translation", Title: t.spec.Title,
		Caption: []string{
			fmt.Sprintf("One T(%d, %d, %d) of width %d for all languages, %d parameters, %d steps of %d pairs, through K = %d partitions with M = %d, checkpoint %v, on %v devices. Held out: %d pairs of each language, the same sentences in all.",
				m.Layers, m.FF, m.Heads, m.Dim, own.Params, len(own.Losses), profile.Training.Batch,
				t.setup.Partitions, t.setup.MicroBatches, t.setup.Checkpoint, t.setup.Device, profile.Data.HeldOut),
			fmt.Sprintf("BLEU of greedy translations, and of what stands beside: the source itself, a word-by-word dictionary learned from the same pairs, and the same network (%d steps) whose cross-attention has nothing to attend to.", len(without.Losses)),
		},
		Columns: []Column{
			{"language, from high to low resource", true}, {"training pairs", false}, {"share of a batch", false},
			{"BLEU: copy", false}, {"dictionary", false}, {"no source", false}, {"Transformer", false},
			{"nats per token", false}, {"of no source", false}, {"accuracy", false},
		},
	}
	var refs *Evaluation
	if reference != nil {
		var r translationSample
		if reference.Get(seeing, &r) == nil && len(r.Eval.Languages) == len(own.Eval.Languages) {
			refs = r.Eval
		}
		table.Columns = append(table.Columns, Column{Name: "reference BLEU"})
	}
	add := func(ref float64, cells ...string) {
		if reference != nil {
			cell := ""
			if refs != nil {
				cell = fmt.Sprintf("%.2f", ref)
			}
			cells = append(cells, cell)
		}
		table.Add(cells...)
	}
	pairs := 0
	for i, l := range own.Eval.Languages {
		pairs += l.Train
		var ref float64
		if refs != nil {
			ref = refs.Languages[i].BLEU
		}
		dark := without.Eval.Languages[i]
		add(ref, l.Name, fmt.Sprint(l.Train), FormatShare(l.Share, 1),
			fmt.Sprintf("%.2f", own.Baselines[0].Languages[i]), fmt.Sprintf("%.2f", own.Baselines[1].Languages[i]),
			fmt.Sprintf("%.2f", dark.BLEU), fmt.Sprintf("%.2f", l.BLEU),
			fmt.Sprintf("%.4f", l.Loss), fmt.Sprintf("%.4f", dark.Loss), fmt.Sprintf("%.1f%%", 100*l.Accuracy))
	}
	var ref float64
	if refs != nil {
		ref = *refs.BLEU
	}
	add(ref, "all", fmt.Sprint(pairs), FormatShare(1, 1),
		fmt.Sprintf("%.2f", own.Baselines[0].BLEU), fmt.Sprintf("%.2f", own.Baselines[1].BLEU),
		fmt.Sprintf("%.2f", *without.Eval.BLEU), fmt.Sprintf("%.2f", *own.Eval.BLEU),
		fmt.Sprintf("%.4f", own.Eval.Loss), fmt.Sprintf("%.4f", without.Eval.Loss), fmt.Sprintf("%.1f%%", 100*own.Eval.Accuracy))
	r := &Report{Tables: []*Table{table}}
	same := "is the same"
	if own.HashAfter != check.WeightsSHA256 {
		same = "differs"
		r.Verdict = fmt.Errorf("translation: after %d steps the weights' SHA-256 is %s at K = %d and %s at K = %d: want the same",
			t.spec.Alone.Steps, own.HashAfter, t.setup.Partitions, check.WeightsSHA256, t.alone.Partitions)
	}
	table.Notes = append(table.Notes,
		fmt.Sprintf("After %d steps the weights' SHA-256 %s at K = %d (%s) and at K = %d (%s).",
			t.spec.Alone.Steps, same, t.setup.Partitions, own.HashAfter[:16], t.alone.Partitions, check.WeightsSHA256[:16]),
		fmt.Sprintf("Weights at the end: SHA-256 %s.", own.WeightsSHA256[:16]))
	return r, nil
}
