package trained

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/nn"
	"gpipebench/train"
)

// CheckSetup refuses devices on which trainings cannot run beside one another.
func CheckSetup(s train.Setup) error {
	if s.Device != gpipe.Host {
		return errors.New("trainings run beside one another: want host devices")
	}
	return nil
}

// PlannedArms are the trainings of trials, with their first seed.
func PlannedArms(profile string, arms []Arm, seeds []uint64) (list []lab.PlannedRun) {
	for _, a := range arms {
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile, "training"}, Run: a.Training(seeds[0])})
	}
	return list
}

// Arm is one way to train, which is repeated over seeds. Arms with the same seed
// see the same examples in the same order and, where the network is the same,
// begin with the same weights: they are compared in pairs.
type Arm struct {
	Name     string
	Training func(seed uint64) train.Training
}

// with is the arm with changed trainings.
func (a Arm) with(change func(t *train.Training, seed uint64)) Arm {
	own := a.Training
	a.Training = func(seed uint64) train.Training {
		t := own(seed)
		change(&t, seed)
		return t
	}
	return a
}

// Trial is one training of an arm to its end.
type Trial struct {
	Accuracy  float64               `json:"accuracy"` // of held-out images, or tokens of translations
	HeldOut   float64               `json:"held_out"` // nats for each of them
	Targets   int                   `json:"targets"`  // their number
	Languages []train.LanguageScore `json:"languages,omitempty"`
	LastLoss  float64               `json:"last_loss"`
	Curve     []float64             `json:"curve,omitempty"`          // training losses, means of every hundredth of the steps
	Along     []float64             `json:"held_out_along,omitempty"` // held-out losses at the training's evaluations, where the last weights are kept
	Learnt    int                   `json:"learnt_targets,omitempty"` // that it was trained on
	Ended     int                   `json:"ended_at_step,omitempty"`  // by its evaluations or NonFinite; 0: it made all steps
	Reached   *Reached              `json:"reached,omitempty"`        // of a training until an accuracy
	Best      *train.Best           `json:"best,omitempty"`           // the evaluation whose weights were kept; nil: they are the last
	*Watched                        // nil: it was not
	NonFinite string                `json:"non_finite,omitempty"` // the value with which it ended; its scores are a guesser's. "": none
	SHA256    string                `json:"weights_sha256"`
	Params    int64                 `json:"params"`
	Partition []int                 `json:"partition"`
	Seconds   float64               `json:"seconds"`
	Data      string                `json:"data_sha256,omitempty"` // of the files that the examples are from; "": of none, or not recorded
}

// Check requires the weights' hash; of a training that was watched, looks at predictions and what came
// of its steps; and of one until an accuracy how it ended.
func (t *Trial) Check() error {
	if t.Watched != nil {
		if err := t.Watched.Check(); err != nil {
			return err
		}
		if t.Collapsed != 1 && (len(t.Curve) == 0 || t.Learnt == 0 || len(t.Languages) == 0) {
			return errors.New("no losses, targets or languages of a training that was watched")
		}
	}
	if t.NonFinite != "" {
		return nil
	}
	if err := records.CheckHash("weights_sha256", t.SHA256); err != nil || t.Reached == nil {
		return err
	}
	return t.Reached.Check()
}

// ended says in a few words how a training ended.
func (t *Trial) ended() string {
	switch {
	case t.NonFinite != "":
		return t.NonFinite
	case t.Reached != nil:
		return t.Reached.String()
	case t.Watched != nil && t.Collapsed > 0:
		return fmt.Sprintf("collapsed at step %d", t.Collapsed)
	case t.Watched != nil:
		return fmt.Sprintf("held-out loss %.4f", t.HeldOut)
	}
	return fmt.Sprintf("accuracy %.1f%%", 100*t.Accuracy)
}

func (a Arm) Sample(seed uint64) string { return fmt.Sprintf("%s/seed%d", a.Name, seed) }

// run makes the trials that the log lacks.
func run(ctx context.Context, id string, arms []Arm, seeds []uint64, log *records.Log, p progress.Progress,
	make func(context.Context, train.Training) (*Trial, error)) error {
	return Each(ctx, id, arms, seeds, log, p, func(ctx context.Context, t train.Training) (any, string, error) {
		r, err := make(ctx, t)
		if err != nil {
			return nil, "", err
		}
		return r, r.ended(), nil
	})
}

// Each calls train for every arm and seed whose sample the log lacks, and adds what
// it returns: see lab.Beside. Train also returns in a few words how a training
// ended.
func Each(ctx context.Context, id string, arms []Arm, seeds []uint64, log *records.Log, p progress.Progress,
	train func(context.Context, train.Training) (sample any, end string, err error)) error {
	var jobs []lab.Job
	for _, seed := range seeds {
		for _, a := range arms {
			jobs = append(jobs, lab.Job{Sample: a.Sample(seed), Seed: seed, Make: func(ctx context.Context) (any, string, error) {
				sample, end, err := train(ctx, Kept(a.Training(seed), log, a.Sample(seed)))
				if err != nil {
					return nil, "", fmt.Errorf("%s, %s: %w", id, a.Sample(seed), err)
				}
				return sample, a.Sample(seed) + ": " + end, nil
			}})
		}
	}
	if jobs = lab.Missing(log, jobs); len(jobs) == 0 {
		return nil
	}
	for _, a := range arms {
		t := a.Training(seeds[0])
		if err := lab.Present(t.Data); err != nil {
			return fmt.Errorf("%s, profile %s: %w", id, log.Key.Profile, err)
		}
		if err := a.sameData(log, seeds); err != nil {
			return fmt.Errorf("%s, %s: %w", id, a.Name, err)
		}
	}
	flops, err := work(arms, seeds, log)
	if err != nil {
		return fmt.Errorf("%s, %w", id, err)
	}
	p.Begin(fmt.Sprintf("%s: %d trainings, %s", id, len(jobs), units.FormatFLOPs(flops)), len(jobs))
	defer p.End()
	return lab.Beside(ctx, log, p, jobs)
}

// sameData refuses to go on with other files of data than those of the samples that are there.
func (a Arm) sameData(log *records.Log, seeds []uint64) error {
	known, lacks := "", false
	for _, seed := range seeds {
		var r Trial
		if !log.Has(a.Sample(seed)) {
			lacks = true
		} else if log.Get(a.Sample(seed), &r) == nil {
			known = cmp.Or(known, r.Data)
		}
	}
	if known == "" || !lacks {
		return nil
	}
	t := a.Training(seeds[0])
	s, err := t.Source()
	if err != nil {
		return err
	}
	if datasets.Digest(s) != known {
		return errors.New("the files of data are others than those that trainings in the records learnt: want the same, or --fresh")
	}
	return nil
}

// work returns how many operations the trainings have that the log lacks.
func work(arms []Arm, seeds []uint64, log *records.Log) (flops float64, err error) {
	type kind struct {
		train.Model
		batch, steps, epochs int
		checkpoint           schedule.Checkpoint
	}
	known := map[kind]float64{}
	for _, a := range arms {
		for _, seed := range seeds {
			if log.Has(a.Sample(seed)) {
				continue
			}
			t := a.Training(seed)
			of := kind{t.Model, t.Batch, t.Steps, t.Epochs, t.Setup.Checkpoint}
			if _, is := known[of]; !is {
				if known[of], err = t.FLOPs(); err != nil {
					return 0, fmt.Errorf("%s: %w", a.Sample(seed), err)
				}
			}
			flops += known[of]
		}
	}
	return flops, nil
}

// between is the time between two snapshots of a training.
const between = 30 * time.Second

// Kept returns a training that keeps snapshots until its record is in the log, so that it
// goes on where it was stopped. If the log has no file, there are none.
func Kept(t train.Training, log *records.Log, sample string) train.Training {
	t.Snapshots = train.Snapshots{Dir: log.Unfinished(sample), Interval: between, Resume: true, Own: true}
	if t.Snapshots.Dir == "" {
		t.Snapshots = train.Snapshots{}
	}
	return t
}

// Train trains, saves the weights if they have a file, and evaluates, or also translates, once
// at the end. One that ends with a value that is not finite, or is evaluated to one, is no better than a guesser, and
// scored as one.
func Train(ctx context.Context, t train.Training) (*Trial, error) {
	start := time.Now()
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r := &Trial{}
	var soFar struct {
		Losses  []float64 `json:"losses"`
		Targets int       `json:"targets"`
		Along   []float64 `json:"along,omitempty"`
	}
	steps := l.Steps
	hooks := train.Hooks{Report: &soFar, After: func(step *train.TrainStep) error {
		soFar.Losses, soFar.Targets = append(soFar.Losses, step.Loss), soFar.Targets+step.Count
		return nil
	}}
	if every := t.EvalEvery; every > 0 && t.Keep == train.KeepLast {
		hooks.At = func(done int) error {
			if done%every != 0 || done/every == len(soFar.Along) {
				return nil
			}
			e, err := l.Evaluate(ctx)
			if err == nil {
				soFar.Along = append(soFar.Along, e.Loss)
			}
			return err
		}
	}
	err = l.Run(ctx, hooks)
	if err == nil && t.Save != "" {
		err = l.Save()
	}
	var e *train.Evaluation
	if err == nil {
		e, err = l.Score(ctx)
	}
	var bad *gpipe.NonFiniteError
	switch {
	case errors.As(err, &bad):
		e, r.NonFinite, r.Ended = guessed(l.Source), bad.Error(), min(len(soFar.Losses)+1, l.Steps)
	case err != nil:
		return nil, err
	case l.Steps < steps:
		r.Ended = l.Steps
	}
	r.learnt(soFar.Losses)
	r.Learnt, r.Along = soFar.Targets, soFar.Along
	r.outcome(l, e)
	r.Seconds = l.Earlier() + time.Since(start).Seconds()
	return r, nil
}

// learnt sets what training losses came to.
func (t *Trial) learnt(losses []float64) {
	if len(losses) > 0 {
		t.LastLoss = losses[len(losses)-1]
	}
	line, _ := plot.Binned(losses, plot.Curve)
	for _, at := range line {
		t.Curve = append(t.Curve, at.Y)
	}
}

// outcome sets everything but the time and what came of the steps, of a training that is at its end, by an
// evaluation.
func (t *Trial) outcome(l *train.Loop, e *train.Evaluation) {
	t.Accuracy, t.HeldOut, t.Targets, t.Languages = e.Accuracy, e.Loss, e.Targets, e.Languages
	t.Best = l.Best()
	t.network(l)
}

// network sets what is of the network and its data, whatever it scores.
func (t *Trial) network(l *train.Loop) {
	t.SHA256, t.Params, t.Data = l.Trainer.Hash(), nn.CountParams(l.Pipeline.Layers), l.DataDigest()
	t.Partition, _ = l.Trainer.Sizes()
}

// each is a figure of an arm's trainings, by seed.
func (t Trials) each(of func(*Trial) float64) (all []float64) {
	for _, r := range t.Runs {
		all = append(all, of(r))
	}
	return all
}

// heldOut are an arm's held-out losses, by seed.
func (t Trials) heldOut() []float64 { return t.each(func(r *Trial) float64 { return r.HeldOut }) }

// made are the steps that an arm's trainings made, by seed.
func (t Trials) made() []float64 {
	steps := t.Training(1).Steps
	return t.each(func(r *Trial) float64 { return float64(cmp.Or(r.Ended, steps)) })
}

// overLanguages is the mean of a score over languages, by seed; nil if a record lacks one.
func (t Trials) overLanguages(score func(train.LanguageScore) *float64) (all []float64) {
	for _, r := range t.Runs {
		sum := 0.0
		for _, l := range r.Languages {
			s := score(l)
			if s == nil {
				return nil
			}
			sum += *s
		}
		all = append(all, sum/float64(len(r.Languages)))
	}
	return all
}

// Trials are an arm's trainings, by seed.
type Trials struct {
	Arm
	Runs []*Trial
}

// Read returns the trials of arms, of which each had the same data with every seed.
func Read(log *records.Log, arms []Arm, seeds []uint64) ([]Trials, error) {
	var all []Trials
	for _, a := range arms {
		t := Trials{Arm: a}
		data := ""
		for _, seed := range seeds {
			r := &Trial{}
			if err := log.Get(a.Sample(seed), r); err != nil {
				return nil, err
			}
			if r.Data != "" && data != "" && r.Data != data {
				return nil, log.Strange(a.Sample(seed), errors.New("its training had other files of data than those of other samples: want the same"))
			}
			data = cmp.Or(data, r.Data)
			t.Runs = append(t.Runs, r)
		}
		all = append(all, t)
	}
	return all, nil
}

// Accuracies returns the accuracies in percent.
func (t Trials) Accuracies() []float64 {
	return t.each(func(r *Trial) float64 { return 100 * r.Accuracy })
}
