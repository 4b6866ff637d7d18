package gpipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpipebench/datasets"
	"gpipebench/internal/progress"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// qualityTrial is one training.
type qualityTrial struct {
	trained.Trial
	Steps  int       `json:"steps"`
	Tokens int       `json:"target_tokens"` // that it was trained on
	FLOPs  float64   `json:"flops"`         // of its steps, about
	Curve  []float64 `json:"curve"`         // its losses: means of every hundredth of the steps
}

// Check requires what tables and pictures need.
func (t *qualityTrial) Check() error {
	if len(t.Languages) == 0 || len(t.Curve) == 0 || t.Steps < 1 || t.Tokens < 1 {
		return errors.New("no scores of languages, losses, steps or target tokens")
	}
	return t.Trial.Check()
}

// qualityBaselines are what translations without a network score, by BLEU and language.
type qualityBaselines struct {
	Copy       []float64 `json:"copy"`
	Dictionary []float64 `json:"dictionary"`
	Data       string    `json:"data_sha256,omitempty"` // as in trained.Trial
}

// qualityWithoutNetwork is their sample.
const qualityWithoutNetwork = "without a network"

func (q *quality) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(q.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	arms := q.arms(profile)
	known := qualityDigests(log, arms, profile.Seeds)
	jobs := []lab.Job{lab.Making(qualityWithoutNetwork, profile.Seeds[0], func(context.Context) (*qualityBaselines, error) {
		return qualityBaselinesOf(arms[0].Training(profile.Seeds[0]))
	})}
	lack := 0 // trainings
	for _, seed := range profile.Seeds {
		for _, a := range arms {
			sample := a.Sample(seed)
			jobs = append(jobs, lab.Job{Sample: sample, Seed: seed, Make: func(ctx context.Context) (any, string, error) {
				r, err := a.train(ctx, trained.Kept(a.Training(seed), log, sample), known[a.of])
				if err != nil {
					return nil, "", fmt.Errorf("%s, %s: %w", q.ID(), sample, err)
				}
				return r, fmt.Sprintf("%s: %.4f nats, %s", sample, r.HeldOut, units.FormatWait(time.Duration(r.Seconds*float64(time.Second)))), nil
			}})
			if !log.Has(sample) {
				lack++
			}
		}
	}
	if jobs = lab.Missing(log, jobs); len(jobs) == 0 {
		return nil
	}
	if err := lab.Present(profile.Data.Source()); err != nil {
		return fmt.Errorf("%s, profile %s: %w", q.ID(), log.Key.Profile, err)
	}
	p.Begin(fmt.Sprintf("%s: %d trainings", q.ID(), lack), len(jobs))
	defer p.End()
	return lab.Beside(ctx, log, p, jobs)
}

// qualityDigests are the digests of the catalogs' pairs, by language, that a log's samples were trained on.
func qualityDigests(log *records.Log, arms []qualityArm, seeds []uint64) map[string]string {
	known := map[string]string{}
	for _, a := range arms {
		for _, seed := range seeds {
			var r qualityTrial
			if sample := a.Sample(seed); log.Has(sample) && log.Get(sample, &r) == nil {
				known[a.of] = r.Data
			}
		}
	}
	return known
}

// train trains within the budget, and scores and translates once at the end. It refuses
// other data than those of a digest, unless that is empty.
func (a qualityArm) train(ctx context.Context, t train.Training, known string) (*qualityTrial, error) {
	start := time.Now()
	flops, err := a.within(&t)
	if err != nil {
		return nil, err
	}
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r := &qualityTrial{Steps: t.Steps, FLOPs: flops}
	if known != "" && l.DataDigest() != known {
		return nil, errors.New("the catalogs have other sentences than those that trainings in the records learnt: want the same catalogs, or --fresh")
	}
	var so struct {
		Losses []float64 `json:"losses"`
		Tokens int       `json:"target_tokens"`
	}
	err = l.Run(ctx, train.Hooks{Report: &so, After: func(step *train.TrainStep) error {
		so.Losses, so.Tokens = append(so.Losses, step.Loss), so.Tokens+step.Count
		return nil
	}})
	if err != nil {
		return nil, err
	}
	if err := r.Fill(ctx, l); err != nil {
		return nil, err
	}
	r.Tokens, r.LastLoss = so.Tokens, so.Losses[len(so.Losses)-1]
	line, _ := plot.Binned(so.Losses, plot.Curve)
	for _, at := range line {
		r.Curve = append(r.Curve, at.Y)
	}
	r.Seconds = l.Earlier() + time.Since(start).Seconds()
	return r, nil
}

// qualityBaselinesOf scores a training's data.
func qualityBaselinesOf(t train.Training) (*qualityBaselines, error) {
	s, err := t.Source()
	if err != nil {
		return nil, err
	}
	b := &qualityBaselines{Data: t.DataDigest(s)}
	for i, from := range s.(*datasets.Translation).Baselines() {
		scores := []*[]float64{&b.Copy, &b.Dictionary}[i]
		for _, bleu := range from.BLEU {
			*scores = append(*scores, bleu.Score())
		}
	}
	return b, nil
}
