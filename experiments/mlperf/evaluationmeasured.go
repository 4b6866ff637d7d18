package mlperf

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// evaluationMeasuredSpec is the spec of evaluation-measured.
type evaluationMeasuredSpec struct {
	timed.Profiled[evaluationMeasuredProfile] `yaml:",inline"`
	Optimizer                                 string  `yaml:"optimizer" want:"optimizer"`
	LR                                        float64 `yaml:"lr" want:">0.."`
	Replicas                                  []int   `yaml:"replicas" want:"1..64,first=1,ascending"`
}

type evaluationMeasuredProfile struct {
	timed.Size `yaml:",inline"`
	Model      train.Model `yaml:"model"`
	Batch      int         `yaml:"batch" want:"1..65536"`
	HeldOut    int         `yaml:"held_out" want:"1..1048576"`
	Every      int         `yaml:"every" want:"1..1000000"` // steps
	Steps      int         `yaml:"steps" want:"1..1000"`    // that are timed in a round
}

// evaluationMeasured times evaluations and steps on emulated replicas.
type evaluationMeasured = timed.Compared[evaluationMeasuredSpec, evaluationMeasuredProfile, int, evaluationRecord]

type evaluationRuns = timed.Comparison[evaluationMeasuredProfile, int, evaluationRecord]

func newEvaluationMeasured() (lab.Experiment, error) {
	x := &evaluationMeasured{}
	s := &x.Spec
	x.Check, x.Training, x.Make, x.Show = s.check, s.training, s.measure, s.show
	x.Runs = func(evaluationMeasuredProfile) []int { return s.Replicas }
	x.Name = func(r int) string { return fmt.Sprintf("R=%d", r) }
	return x, nil
}

func (x *evaluationMeasuredSpec) check() *lab.Problem {
	most := slices.Max(x.Replicas)
	for _, name := range lab.Profiles {
		p := x.Profiles[name]
		if p.Batch%most != 0 {
			return lab.At(fmt.Errorf("%d examples in %d groups: want as many in each", p.Batch, most), "profiles", name, "batch")
		}
		for _, n := range x.Replicas[1:] {
			if p.HeldOut%n == 0 {
				return lab.At(fmt.Errorf("%d images on %d replicas: want a number that none of them divides", p.HeldOut, n), "profiles", name, "held_out")
			}
		}
	}
	return nil
}

// training is a profile's on r replicas.
func (x *evaluationMeasuredSpec) training(p evaluationMeasuredProfile, r int) train.Training {
	return train.Training{
		Model: p.Model, Data: "synthetic", Batch: p.Batch, Steps: p.Steps + 1, Seed: x.Seed,
		Optimizer: x.Optimizer, LR: x.LR, LRSchedule: "constant",
		Config: datasets.Config{SyntheticImages: datasets.SyntheticImagesConfig{Train: p.Batch, HeldOut: p.HeldOut}},
		Setup: train.Setup{
			Partitions: 1, MicroBatches: 1, Replicas: r, Groups: slices.Max(x.Replicas),
			Checkpoint: schedule.Never, Device: gpipe.Emulated, Threads: 1,
		},
	}
}

// evaluationRecord is a training's steps and the evaluation after them.
type evaluationRecord struct {
	Step     float64 `json:"step_seconds"`       // on the devices' clock, every kind of task at its median
	Evaluate float64 `json:"evaluation_seconds"` // the same, of all that is held out
	Padded   int     `json:"padded_examples"`
	Targets  int     `json:"targets"`
	Loss     float64 `json:"loss"`
	Correct  int     `json:"correct"`
	Others   float64 `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// Check requires times above 0, and targets.
func (r *evaluationRecord) Check() error {
	if r.Step <= 0 || r.Evaluate <= 0 {
		return fmt.Errorf("a step of %v s and an evaluation of %v s: want times above 0", r.Step, r.Evaluate)
	}
	if r.Targets < 1 || r.Padded < 0 || r.Correct > r.Targets {
		return fmt.Errorf("%d of %d targets are right, %d examples are padded", r.Correct, r.Targets, r.Padded)
	}
	return nil
}

// sameOutcome compares what two evaluations found, to the bit.
func (r *evaluationRecord) sameOutcome(other *evaluationRecord) bool {
	return r.Loss == other.Loss && r.Correct == other.Correct && r.Targets == other.Targets
}

func (x *evaluationMeasuredSpec) measure(ctx context.Context, p evaluationMeasuredProfile, replicas int) (*evaluationRecord, error) {
	t := x.training(p, replicas)
	l, err := timed.Opened(ctx, t)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if _, _, err := evaluated(ctx, &t, l); err != nil {
		return nil, err
	}
	meter := machine.StartMeter()
	step, _, err := timed.Stepped(ctx, l, p.Steps)
	if err != nil {
		return nil, err
	}
	var made *evaluationRecord
	var all []*gpipe.Times
	for range p.Steps {
		again, times, err := evaluated(ctx, &t, l)
		if err != nil {
			return nil, err
		}
		if made != nil && !again.sameOutcome(made) {
			return nil, errors.New("an evaluation that is repeated comes to something else")
		}
		made, all = again, append(all, times...)
	}
	made.Step, made.Evaluate, made.Others = step, passSeconds(all)/float64(p.Steps), meter.Others()
	return made, nil
}

// passSeconds is the time of evaluations on the devices' clock, in which a pass of each size takes
// the median of its repeats. A replica is one device here, whose passes follow each other;
// replicas begin at the same time, and none waits for another but in the end.
func passSeconds(all []*gpipe.Times) (seconds float64) {
	bySize := map[int][]float64{}
	each := func(t *gpipe.Times, replica int, f func(size int, seconds float64)) {
		for micro, size := range t.Examples[replica] {
			f(size, t.Stages[replica].F[micro])
		}
	}
	for _, t := range all {
		for replica := range t.Stages {
			each(t, replica, func(size int, s float64) { bySize[size] = append(bySize[size], s) })
		}
	}
	for _, t := range all {
		longest := 0.0
		for replica := range t.Stages {
			own := 0.0
			each(t, replica, func(size int, _ float64) { own += stats.Median(bySize[size]) })
			longest = max(longest, own)
		}
		seconds += longest
	}
	return seconds
}

// evaluated evaluates what is held out, as a training does, and returns the outcome and each
// mini-batch's times.
func evaluated(ctx context.Context, t *train.Training, l *train.Loop) (*evaluationRecord, []*gpipe.Times, error) {
	made := &evaluationRecord{}
	var all []*gpipe.Times
	for i := range l.Source.Batches(datasets.HeldOut, t.Batch) {
		b, err := l.Source.Batch(datasets.HeldOut, i, t.Batch)
		if err != nil {
			return nil, nil, err
		}
		padded := t.Padded(b)
		res, err := l.Trainer.Evaluate(ctx, padded)
		if err != nil {
			return nil, nil, err
		}
		made.Padded += padded.Examples() - b.Examples()
		made.Targets += res.Count
		made.Correct += res.Correct
		made.Loss += res.Loss * float64(res.Count)
		all = append(all, res.Times)
	}
	return made, all, nil
}

func (x *evaluationMeasuredSpec) show(c *evaluationRuns) (shown.Rows, error) {
	training := func(c *evaluationRuns, r int) []float64 { // from one evaluation to the next
		return c.Each(r, func(o *evaluationRecord) float64 { return float64(c.Profile.Every) * o.Step })
	}
	evaluation := func(c *evaluationRuns, r int) []float64 {
		return c.Each(r, func(o *evaluationRecord) float64 { return o.Evaluate })
	}
	var rows []shown.Values
	for _, r := range x.Replicas {
		rows = append(rows, shown.Values{
			"R": r, "padded": c.Of[r][0].Padded, "training": training(c, r), "evaluation": evaluation(c, r),
			"one_training": training(c, 1), "one_evaluation": evaluation(c, 1),
			"same":            c.SameBits(r, 1, "evaluations on %s replicas", (*evaluationRecord).sameOutcome),
			"before_training": training(c.Before, r), "before_evaluation": evaluation(c.Before, r), "before_one": evaluation(c.Before, 1),
		})
	}
	return shown.Rows{"": rows}, nil
}
