package trained

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"gpipebench/datasets"
	"gpipebench/internal/files"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/internal/units"
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
		return f.measureWhole(ctx, size, log, p)
	}
	if err := f.readSets(ctx, size, log); err != nil {
		return err
	}
	if err := f.measureBaselines(ctx, size, log, p); err != nil {
		return err
	}
	if err := f.measurePilots(ctx, size, log, p); err != nil {
		return err
	}
	arms, err := f.chosen(size, log)
	if err != nil {
		return err
	}
	return f.trials(ctx, arms, size, log, p)
}

// Left counts trainings of arms and seeds, without pilots. Until these are there, all are lacking.
func (x *Experiment[Own]) Left(log *records.Log) (left, all int) {
	f := &x.Spec.Frame
	size := f.Profiles[log.Key.Profile]
	all = len(f.Arms) * max(1, len(size.Seeds))
	arms, err := f.chosen(size, log)
	if err != nil {
		return all, all
	}
	for _, a := range arms {
		for _, seed := range size.Seeds {
			if !log.Has(a.Sample(seed)) {
				left++
			}
		}
		if f.Whole && !log.Has(a.Name) {
			left++
		}
	}
	return left, all
}

// wholeSample is a training with all that train reports of it, and the text that it learnt, if
// that was made for it.
type wholeSample struct {
	Bytes     int    `json:"bytes,omitempty"` // of the text
	Text      string `json:"text,omitempty"`  // its hash
	GoVersion string `json:"go_version,omitempty"`
	Whole
}

// measureWhole makes the trainings of arms that the log lacks, beside one another: their outcome alone counts.
func (f *Frame) measureWhole(ctx context.Context, size Size, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	var lock sync.Mutex
	steps := 0
	advance := func(detail string) {
		lock.Lock()
		defer lock.Unlock()
		p.Advance(detail)
	}
	for _, a := range f.Arms {
		if log.Has(a.Name) {
			continue
		}
		steps += f.Training(size, a, f.Seed).Steps
		jobs = append(jobs, lab.Job{Sample: a.Name, Seed: f.Seed, Make: func(ctx context.Context) (any, string, error) {
			s, err := f.trainWhole(ctx, size, a, log, advance)
			if err != nil {
				return nil, "", fmt.Errorf("%s, %s: %w", f.Experiment, a.Name, err)
			}
			return s, "", nil
		}})
	}
	if len(jobs) == 0 {
		return nil
	}
	p.Begin(fmt.Sprintf("%s: %s", f.Experiment, units.Counted(len(jobs), "training")), steps)
	defer p.End()
	return lab.Beside(ctx, log, progress.Silent{}, jobs)
}

func (f *Frame) trainWhole(ctx context.Context, size Size, a ArmSpec, log *records.Log, advance func(string)) (*wholeSample, error) {
	t, s := f.Training(size, a, f.Seed), &wholeSample{}
	if t.Data == lab.DocumentationSource {
		dir, err := os.MkdirTemp("", "corpus-*")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		name := filepath.Join(dir, "go-documentation.txt")
		text, version, err := datasets.WriteGoDocumentation(name)
		if err != nil {
			return nil, err
		}
		t.Data = "text:" + name
		s.Bytes, s.Text, s.GoVersion = len(text), machine.Digest(string(text)), version
	}
	return s, s.train(ctx, Kept(t, log, a.Name), func(step train.TrainStep) {
		advance(fmt.Sprintf("%s, loss %.4f", a.Name, step.Loss))
	})
}

// Result is what came of an arm's trainings.
type Result struct {
	ArmSpec
	Trials // by seed; of whole records the arm alone
	Setup  train.Setup
	Rates  []float64 // of pilots
	Pilots []float64 // mean losses, by rate
	whole  *wholeSample
}

// trials makes the trials that the log lacks: those that begin with another arm's weights after that
// arm's, so that all cores have work meanwhile. Weights are kept until all are made.
func (f *Frame) trials(ctx context.Context, arms []Arm, size Size, log *records.Log, p progress.Progress) error {
	seeds, make := size.Seeds, f.making(size)
	const kept = "weights"
	dir := log.Unfinished(kept)
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "weights-*"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	given := map[string]Arm{} // that others begin with
	var first, then []Arm
	for i, spec := range f.Arms {
		a := arms[i]
		if of := f.Named(spec.From); of >= 0 {
			then = append(then, a.with(func(t *train.Training, seed uint64) { t.LoadPart = weightsOf(dir, of, seed) }))
			continue
		}
		if slices.ContainsFunc(f.Arms, func(o ArmSpec) bool { return o.From == spec.Name }) {
			a = a.with(func(t *train.Training, seed uint64) { t.Save = weightsOf(dir, i, seed) })
			given[spec.Name] = a
		}
		first = append(first, a)
	}
	if then == nil {
		return run(ctx, f.Experiment, first, seeds, log, p, make)
	}
	if len(lacking(log, slices.Concat(first, then), seeds)) == 0 {
		return nil
	}
	if err := files.MakeDir(dir); err != nil {
		return err
	}
	if err := run(ctx, f.Experiment, first, seeds, log, p, make); err != nil {
		return err
	}
	for _, spec := range f.Arms {
		if spec.From == "" {
			continue
		}
		for _, seed := range lacking(log, []Arm{arms[f.Named(spec.Name)]}, seeds) {
			if err := given[spec.From].again(ctx, f.Experiment, seed, log); err != nil {
				return err
			}
		}
	}
	if err := run(ctx, f.Experiment, then, seeds, log, p, make); err != nil {
		return err
	}
	return log.Finished(kept)
}
