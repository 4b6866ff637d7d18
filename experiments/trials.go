package experiments

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"gpipebench/datasets"
	"gpipebench/nn"
)

// arm is one way to train, which is repeated over seeds. Arms with the same seed
// see the same examples in the same order and, where the network is the same,
// begin with the same weights: they are compared in pairs.
type arm struct {
	name     string
	training func(seed uint64) Training
}

// trial is one training of an arm to its end.
type trial struct {
	Accuracy  float64         `json:"accuracy"` // of held-out images, or tokens of translations
	HeldOut   float64         `json:"held_out"` // nats for each of them
	Targets   int             `json:"targets"`  // their number
	Languages []LanguageScore `json:"languages,omitempty"`
	LastLoss  float64         `json:"last_loss"`
	SHA256    string          `json:"weights_sha256"`
	Params    int64           `json:"params"`
	Partition []int           `json:"partition"`
	Seconds   float64         `json:"seconds"`
}

func (a arm) sample(seed uint64) string { return fmt.Sprintf("%s/seed%d", a.name, seed) }

// runTrials runs the trials that the log lacks, as many beside one another as
// there are cores: what comes out does not depend on it, and nothing is timed.
func runTrials(ctx context.Context, id string, arms []arm, seeds []uint64, log *Log, p Progress) error {
	type todo struct {
		arm
		seed uint64
	}
	var list []todo
	for _, seed := range seeds {
		for _, a := range arms {
			if !log.Has(a.sample(seed)) {
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
		group.Go(func() error {
			name := l.sample(l.seed)
			r, err := train(ctx, l.training(l.seed))
			if err != nil {
				return fmt.Errorf("%s, %s: %w", id, name, err)
			}
			one.Lock()
			defer one.Unlock()
			p.Advance(fmt.Sprintf("%s: accuracy %.1f%%", name, 100*r.Accuracy))
			return log.Add(name, l.seed, r)
		})
	}
	return group.Wait()
}

// train trains, and evaluates, or also translates, once at the end.
func train(ctx context.Context, t Training) (*trial, error) {
	start := time.Now()
	b, err := t.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer b.trainer.Close()
	source, trainer := b.source, b.trainer
	r := &trial{Params: nn.CountParams(b.pipeline.Layers)}
	for i := range b.steps {
		b, err := source.Batch(datasets.Train, i, t.Batch)
		if err != nil {
			return nil, err
		}
		res, err := trainer.Step(ctx, b)
		if err != nil {
			return nil, err
		}
		r.LastLoss = res.Loss
	}
	e, err := t.evaluate(ctx, trainer, source)
	if err != nil {
		return nil, err
	}
	if pairs, ok := source.(*datasets.Translation); ok {
		if err := t.translate(ctx, trainer, pairs, e); err != nil {
			return nil, err
		}
	}
	r.Accuracy, r.HeldOut, r.Targets, r.Languages = e.Accuracy, e.Loss, e.Targets, e.Languages
	r.SHA256 = trainer.Hash()
	r.Partition, _ = trainer.Sizes()
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// trials are an arm's, by seed.
type trials struct {
	arm
	runs []*trial
}

func readTrials(log *Log, arms []arm, seeds []uint64) ([]trials, error) {
	var all []trials
	for _, a := range arms {
		t := trials{arm: a}
		for _, seed := range seeds {
			r := &trial{}
			if err := log.Get(a.sample(seed), r); err != nil {
				return nil, err
			}
			t.runs = append(t.runs, r)
		}
		all = append(all, t)
	}
	return all, nil
}

// accuracies are in percent.
func (t trials) accuracies() []float64 {
	var as []float64
	for _, r := range t.runs {
		as = append(as, 100*r.Accuracy)
	}
	return as
}

// eachTrial is a table of all trials, a row for each seed.
func eachTrial(id, title string, all []trials, seeds []uint64) *Table {
	t := &Table{
		ID: id, Title: title,
		Caption: []string{"Held-out accuracy, held-out loss in nats, and the SHA-256 of the weights, by seed."},
		Columns: []Column{{"training", true}, {"partition", true}, {"seed", false}, {"accuracy", false}, {"held-out loss", false}, {"SHA-256 of the weights", true}},
	}
	for _, a := range all {
		for i, r := range a.runs {
			t.Add(a.name, joinInts(r.Partition), fmt.Sprint(seeds[i]), fmt.Sprintf("%.2f%%", 100*r.Accuracy), fmt.Sprintf("%.4f", r.HeldOut), r.SHA256[:16])
		}
	}
	return t
}
