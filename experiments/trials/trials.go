// Package trials compares trainings over seeds.
package trials

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/internal/defect"
	"gpipebench/nn"
)

// Check reports a profile whose training has no steps.
func Check[P any](profiles map[string]P, of func(P) suite.TrainingSpec) *suite.Problem {
	for _, name := range suite.Profiles {
		if training := of(profiles[name]); training.Steps < 1 {
			return suite.At(errors.New("want 1 or more"), "profiles", name, "training", "steps")
		}
	}
	return nil
}

// PlannedArms are the trainings of trials, with their first seed.
func PlannedArms(profile string, arms []Arm, seeds []uint64) (list []suite.PlannedRun) {
	for _, a := range arms {
		list = append(list, suite.PlannedRun{Path: []string{"profiles", profile, "training"}, Run: a.Training(seeds[0])})
	}
	return list
}

// Arm is one way to train, which is repeated over seeds. Arms with the same seed
// see the same examples in the same order and, where the network is the same,
// begin with the same weights: they are compared in pairs.
type Arm struct {
	Name     string
	Training func(seed uint64) workload.Training
}

// Trial is one training of an arm to its end.
type Trial struct {
	Accuracy  float64                  `json:"accuracy"` // of held-out images, or tokens of translations
	HeldOut   float64                  `json:"held_out"` // nats for each of them
	Targets   int                      `json:"targets"`  // their number
	Languages []workload.LanguageScore `json:"languages,omitempty"`
	LastLoss  float64                  `json:"last_loss"`
	SHA256    string                   `json:"weights_sha256"`
	Params    int64                    `json:"params"`
	Partition []int                    `json:"partition"`
	Seconds   float64                  `json:"seconds"`
}

// Check wants the weights' hash.
func (t *Trial) Check() error { return records.CheckHash("weights_sha256", t.SHA256) }

func (a Arm) Sample(seed uint64) string { return fmt.Sprintf("%s/seed%d", a.Name, seed) }

// Run makes the trials that the log lacks.
func Run(ctx context.Context, id string, arms []Arm, seeds []uint64, log *records.Log, p progress.Progress) error {
	return Each(ctx, id, arms, seeds, log, p, func(ctx context.Context, t workload.Training) (any, string, error) {
		r, err := Train(ctx, t)
		if err != nil {
			return nil, "", err
		}
		return r, fmt.Sprintf("accuracy %.1f%%", 100*r.Accuracy), nil
	})
}

// Each has train make the samples that the log lacks of every arm and seed, as
// many beside one another as there are cores: what comes out does not depend on it,
// and nothing is timed. Train also says in a few words how a training ended.
func Each(ctx context.Context, id string, arms []Arm, seeds []uint64, log *records.Log, p progress.Progress,
	train func(context.Context, workload.Training) (sample any, end string, err error)) error {
	type todo struct {
		Arm
		seed uint64
	}
	var list []todo
	for _, seed := range seeds {
		for _, a := range arms {
			if !log.Has(a.Sample(seed)) {
				list = append(list, todo{a, seed})
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	p.Begin(fmt.Sprintf("%s: %d trainings", id, len(list)), len(list))
	defer p.End()
	var one sync.Mutex // for log and progress
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, l := range list {
		group.Go(func() (err error) {
			defer defect.Catch(&err)
			name := l.Sample(l.seed)
			sample, end, err := train(ctx, l.Training(l.seed))
			if err != nil {
				return fmt.Errorf("%s, %s: %w", id, name, err)
			}
			one.Lock()
			defer one.Unlock()
			p.Advance(name + ": " + end)
			return log.Add(name, l.seed, sample)
		})
	}
	return group.Wait()
}

// Train trains, and evaluates, or also translates, once at the end.
func Train(ctx context.Context, t workload.Training) (*Trial, error) {
	start := time.Now()
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r := &Trial{Params: nn.CountParams(l.Pipeline.Layers)}
	err = l.Run(ctx, workload.Hooks{After: func(step *workload.TrainStep) error {
		r.LastLoss = step.Loss
		return nil
	}})
	if err != nil {
		return nil, err
	}
	e, err := l.Score(ctx)
	if err != nil {
		return nil, err
	}
	r.Accuracy, r.HeldOut, r.Targets, r.Languages = e.Accuracy, e.Loss, e.Targets, e.Languages
	r.SHA256 = l.Trainer.Hash()
	r.Partition, _ = l.Trainer.Sizes()
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// Trials are an arm's, by seed.
type Trials struct {
	Arm
	Runs []*Trial
}

func Read(log *records.Log, arms []Arm, seeds []uint64) ([]Trials, error) {
	var all []Trials
	for _, a := range arms {
		t := Trials{Arm: a}
		for _, seed := range seeds {
			r := &Trial{}
			if err := log.Get(a.Sample(seed), r); err != nil {
				return nil, err
			}
			t.Runs = append(t.Runs, r)
		}
		all = append(all, t)
	}
	return all, nil
}

// Accuracies are in percent.
func (t Trials) Accuracies() []float64 {
	var as []float64
	for _, r := range t.Runs {
		as = append(as, 100*r.Accuracy)
	}
	return as
}

// Reference is a reference's mean accuracy of an arm, which it may not have.
func Reference(all []Trials, arm int) suite.Value {
	if arm >= len(all) {
		return suite.Value{}
	}
	return suite.Joined("%v%%", suite.Mean(all[arm].Accuracies(), 2))
}

// EachTable is a table of all trials, a row for each seed.
func EachTable(id, title string, all []Trials, seeds []uint64) *suite.Table {
	t := &suite.Table{
		ID: id, Title: title,
		Caption: []string{"Held-out accuracy, held-out loss in nats, and the SHA-256 of the weights, by seed."},
	}
	t.Texts("training", "partition")
	t.Numbers("seed", "accuracy", "held-out loss")
	t.Texts("SHA-256 of the weights")
	for _, a := range all {
		for i, r := range a.Runs {
			t.Add(a.Name, r.Partition, seeds[i], suite.Percent(r.Accuracy, 2), suite.Fixed(r.HeldOut, 4), r.SHA256[:16])
		}
	}
	return t
}
