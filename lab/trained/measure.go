package trained

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// Measure makes the trainings that the log lacks: pilots first, since the others' rates follow.
func (x *Experiment[Own]) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	f := &x.Spec.Frame
	size, err := lab.ProfileOf(f.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	if f.Whole {
		for _, a := range f.Arms {
			if !log.Has(a.Name) {
				if err := f.measureWhole(ctx, size, a, log, p); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := f.readSets(ctx, size, log); err != nil {
		return err
	}
	var grid []Arm
	for _, a := range f.Arms {
		grid = append(grid, f.grid(size, a)...)
	}
	if err := Each(ctx, x.ID(), grid, size.Pilots.Seeds, log, p, makePilot); err != nil {
		return err
	}
	arms, err := f.chosen(size, log)
	if err != nil {
		return err
	}
	return f.trials(ctx, arms, size.Seeds, log, p)
}

// wholeSample is a training with all that train reports of it, and the text that it learnt, if
// that was made for it.
type wholeSample struct {
	Bytes     int    `json:"bytes,omitempty"` // of the text
	Text      string `json:"text,omitempty"`  // its hash
	GoVersion string `json:"go_version,omitempty"`
	Whole
}

func (f *Frame) measureWhole(ctx context.Context, size Size, a ArmSpec, log *records.Log, p progress.Progress) error {
	t, s := f.Training(size, a, f.Seed), &wholeSample{}
	if t.Data == lab.DocumentationSource {
		dir, err := os.MkdirTemp("", "corpus-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		name := filepath.Join(dir, "go-documentation.txt")
		text, version, err := datasets.WriteGoDocumentation(name)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", f.Experiment, a.Name, err)
		}
		t.Data = "text:" + name
		s.Bytes, s.Text, s.GoVersion = len(text), machine.Digest(string(text)), version
	}
	if err := s.Train(ctx, f.Experiment, a.Name, t, log, p); err != nil {
		return err
	}
	return log.Add(a.Name, f.Seed, s)
}

// pilot is a trial that may also end with a loss that is not finite.
type pilot struct {
	*Trial
	NonFinite string `json:"non_finite,omitempty"`
}

func (q *pilot) Check() error {
	if q.NonFinite != "" {
		return nil
	}
	if q.Trial == nil {
		return errors.New("no trial")
	}
	return q.Trial.Check()
}

// loss is the loss on what is held out.
func (q *pilot) loss() float64 {
	if q.NonFinite != "" {
		return math.Inf(1)
	}
	return q.HeldOut
}

func makePilot(ctx context.Context, t train.Training) (any, string, error) {
	trial, err := Train(ctx, t)
	var bad *gpipe.NonFiniteError
	switch {
	case errors.As(err, &bad):
		return &pilot{NonFinite: bad.Error()}, bad.Error(), nil
	case err != nil:
		return nil, "", err
	}
	return &pilot{Trial: trial}, fmt.Sprintf("held-out loss %.4f", trial.HeldOut), nil
}

// piloted are the mean held-out losses of an arm's pilots, by rate.
func (f *Frame) piloted(size Size, a ArmSpec, log *records.Log) (losses []float64, err error) {
	for _, of := range f.grid(size, a) {
		sum := 0.0
		for _, seed := range size.Pilots.Seeds {
			var q pilot
			if err := log.Get(of.Sample(seed), &q); err != nil {
				return nil, err
			}
			sum += q.loss()
		}
		losses = append(losses, sum/float64(len(size.Pilots.Seeds)))
	}
	return losses, nil
}

// chosen are the arms as they are trained: at the rate whose pilots have the least held-out loss,
// the first of equals; without pilots at their own.
func (f *Frame) chosen(size Size, log *records.Log) (arms []Arm, err error) {
	for _, a := range f.Arms {
		rate := 0.0
		if len(size.Pilots.Rates) > 0 {
			losses, err := f.piloted(size, a, log)
			if err != nil {
				return nil, err
			}
			least := slices.Min(losses)
			if math.IsInf(least, 1) {
				return nil, fmt.Errorf("%s: no pilot of %s ends with a finite loss: want lower rates", f.Experiment, a.Name)
			}
			rate = size.Pilots.Rates[slices.Index(losses, least)]
		}
		arms = append(arms, f.arm(size, a, rate))
	}
	return arms, nil
}

// Result is what came of an arm's trainings.
type Result struct {
	ArmSpec
	Trials // by seed; of whole records the arm alone
	Setup  train.Setup
	Pilots []float64 // mean held-out losses, by rate
	whole  *wholeSample
}

// Scores are accuracy in percent, held-out loss in nats and, of translators, BLEU, chrF and smoothed
// BLEU; the last two where records have them.
func (x *Experiment[Own]) Scores(log *records.Log) (lab.Scores, error) {
	size, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := x.Spec.Frame.read(size, log)
	if err != nil {
		return nil, err
	}
	scores := lab.Scores{}
	for _, r := range all {
		name := r.ArmSpec.Name
		scores.Put(name, "accuracy", r.Accuracies())
		scores.Put(name, "held-out", r.heldOut())
		if size.Data != nil && !x.Spec.Whole {
			scores.Put(name, "BLEU", r.bleu())
			for statistic, values := range map[string][]float64{"chrF": r.chrF(), "smoothed BLEU": r.smoothed()} {
				if values != nil {
					scores.Put(name, statistic, values)
				}
			}
		}
	}
	return scores, nil
}

// label is the arm's name in tables.
func (r *Result) label() string { return cmp.Or(r.Label, r.ArmSpec.Name) }

// read reads what came of the arms.
func (f *Frame) read(size Size, log *records.Log) (all []*Result, err error) {
	arms, err := f.chosen(size, log)
	if err != nil {
		return nil, err
	}
	trials := make([]Trials, len(arms))
	if !f.Whole {
		if trials, err = Read(log, arms, size.Seeds); err != nil {
			return nil, err
		}
	}
	for i, a := range f.Arms {
		r := &Result{ArmSpec: a, Trials: trials[i], Setup: arms[i].Training(f.Seed).Setup}
		r.Arm = arms[i]
		if !f.Whole && metrics[f.Metric](r.Trials) == nil {
			return nil, log.Strange(a.Name, fmt.Errorf("no %s, which these records are from before: want --fresh", f.Metric))
		}
		if f.Whole {
			r.whole = &wholeSample{}
			if err := log.Get(a.Name, r.whole); err != nil {
				return nil, err
			}
			if err := f.checkTranslated(size, r, i == 0); err != nil {
				return nil, log.Strange(a.Name, err)
			}
		} else if r.Pilots, err = f.piloted(size, a, log); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
