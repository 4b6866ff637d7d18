package trained

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// Pilots choose the learning rate of each arm: the one with the least loss, on average over seeds
// that are no others'. The loss is taken on the development set, where the best weights are kept,
// and otherwise on what is held out. Where trainings end at an accuracy, the rate with the fewest epochs
// is chosen. Intervals over the seeds are at these rates: that pilots may choose another is not in them.
type Pilots struct {
	Seeds []uint64  `yaml:"seeds"`
	Rates []float64 `yaml:"rates" want:">0..1000,ascending"`
	// Share is the part of an arm's steps that its pilots make; 0: all.
	Share float64 `yaml:"share" want:"0..1"`
	// Widen is how many rates may be added to an arm's: while the best of them is at an end, the next
	// one beyond it, by the same factor.
	Widen int `yaml:"widen" want:"0..16"`
}

// RateOf is a rate that pilots have chosen for another arm, times a number.
type RateOf struct {
	Of    string  `yaml:"of" want:"name"`
	Times float64 `yaml:"times" want:">0..1e6"`
}

// arm is one that the profile trains, at a rate that pilots have chosen; 0: its own.
func (f *Frame) arm(p Size, a ArmSpec, rate float64) Arm { return f.shortened(p, a, rate, 0) }

// shortened is an arm that makes a share of its steps; 0: all.
func (f *Frame) shortened(p Size, a ArmSpec, rate, share float64) Arm {
	name := a.Name
	if rate != 0 {
		name += fmt.Sprintf("/lr=%g", rate)
	}
	return Arm{Name: name, Training: func(seed uint64) train.Training {
		t := f.Training(p, a, seed)
		if share > 0 {
			t.Steps = max(2, int(share*float64(t.Steps)))
			p.pace(a).set(&t)
		}
		if rate != 0 {
			t.LR = rate
		}
		return t
	}}
}

// grid are an arm's pilots at some rates.
func (f *Frame) grid(p Size, a ArmSpec, rates []float64) (all []Arm) {
	if a.Rate != nil {
		return nil
	}
	for _, rate := range rates {
		all = append(all, f.shortened(p, a, rate, p.Pilots.Share))
	}
	return all
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

// loss is the one by which a rate is chosen.
func (q *pilot) loss() float64 {
	switch {
	case q.NonFinite != "":
		return math.Inf(1)
	case q.Reached != nil:
		return q.Reached.cost()
	case q.Best != nil:
		return q.Best.Loss
	}
	return q.HeldOut
}

// making is how the spec's trials are made: watched, until an accuracy, or to the end.
func (f *Frame) making(size Size) func(context.Context, train.Training) (*Trial, error) {
	switch {
	case f.Watch != nil:
		return f.Watch.train
	case size.Until > 0:
		return func(ctx context.Context, t train.Training) (*Trial, error) { return Until(ctx, t, size.Until) }
	}
	return Train
}

func (f *Frame) makePilot(ctx context.Context, size Size, t train.Training) (any, string, error) {
	trial, err := f.making(size)(ctx, t)
	switch {
	case err != nil:
		return nil, "", err
	case trial.NonFinite != "":
		return &pilot{NonFinite: trial.NonFinite}, trial.NonFinite, nil
	case trial.Reached != nil:
		return &pilot{Trial: trial}, trial.ended(), nil
	}
	return &pilot{Trial: trial}, fmt.Sprintf("held-out loss %.4f", trial.HeldOut), nil
}

// measurePilots makes the pilots that a log lacks, and those of rates that they add.
func (f *Frame) measurePilots(ctx context.Context, size Size, log *records.Log, p progress.Progress) error {
	for {
		var grid []Arm
		lacks := false
		for _, a := range f.Arms {
			rates, _, _ := f.piloted(size, a, log)
			for _, of := range f.grid(size, a, rates) {
				grid = append(grid, of)
				lacks = lacks || slices.ContainsFunc(size.Pilots.Seeds, func(seed uint64) bool { return !log.Has(of.Sample(seed)) })
			}
		}
		if !lacks {
			return nil
		}
		make := func(ctx context.Context, t train.Training) (any, string, error) { return f.makePilot(ctx, size, t) }
		if err := Each(ctx, f.Experiment, grid, size.Pilots.Seeds, log, p, make); err != nil {
			return err
		}
	}
}

// piloted are the rates of an arm's pilots, ascending, and the mean losses at
// each. An error is of a pilot that the log lacks, or that cannot be read; the rates are then those up to
// it.
func (f *Frame) piloted(size Size, a ArmSpec, log *records.Log) (rates, losses []float64, err error) {
	if a.Rate != nil {
		return nil, nil, nil
	}
	for _, rate := range size.Pilots.Rates {
		rates = append(rates, rate*cmp.Or(a.PilotsTimes, 1))
	}
	for added := 0; ; added++ {
		losses = nil
		for _, of := range f.grid(size, a, rates) {
			sum := 0.0
			for _, seed := range size.Pilots.Seeds {
				var q pilot
				if err := log.Get(of.Sample(seed), &q); err != nil {
					return rates, nil, err
				}
				sum += q.loss()
			}
			losses = append(losses, sum/float64(len(size.Pilots.Seeds)))
		}
		if added == size.Pilots.Widen {
			return rates, losses, nil
		}
		factor := rates[1] / rates[0]
		switch slices.Index(losses, slices.Min(losses)) {
		case 0:
			rates = slices.Insert(rates, 0, rates[0]/factor)
		case len(rates) - 1:
			rates = append(rates, rates[len(rates)-1]*factor)
		default:
			return rates, losses, nil
		}
	}
}

// chosen are the arms as they are trained: at the rate whose pilots have the least loss, the first of
// equals, or a multiple of another arm's; without pilots at their own.
func (f *Frame) chosen(size Size, log *records.Log) (arms []Arm, err error) {
	for _, a := range f.Arms {
		rate := 0.0
		if len(size.Pilots.Rates) > 0 {
			of, times := a, 1.0
			if a.Rate != nil {
				of, times = f.Arms[f.Named(a.Rate.Of)], a.Rate.Times
			}
			rates, losses, err := f.piloted(size, of, log)
			if err != nil {
				return nil, err
			}
			least := slices.Min(losses)
			if math.IsInf(least, 1) {
				return nil, fmt.Errorf("%s: no pilot of %s ends with a finite loss: want lower rates", f.Experiment, of.Name)
			}
			rate = times * rates[slices.Index(losses, least)]
		}
		arms = append(arms, f.arm(size, a, rate))
	}
	return arms, nil
}

// pilotsCell has each rate that an arm's pilots tried, with their mean loss; where trainings end at an
// accuracy, with their epochs. Absent: a loss is not finite, or not all pilots reach the accuracy.
func (r *Reporting) pilotsCell(a *Result) lab.Value {
	var tried []any
	for i, cost := range a.Pilots {
		outcome := lab.Fixed(cost, 4)
		switch {
		case r.Size.Until > 0 && cost <= float64(a.Runs[0].Reached.Of):
			outcome = lab.Fixed(cost, 1)
		case r.Size.Until > 0, math.IsInf(cost, 1):
			outcome = lab.Absent
		}
		tried = append(tried, lab.Joined("%v: %v", lab.Number("%g", a.Rates[i]), outcome))
	}
	if tried == nil {
		return lab.Absent
	}
	return lab.List(", ", tried...)
}

// atEdge says whether an arm's rate is at an end of those that its pilots tried.
func (r *Result) atEdge() string {
	if r.Rates == nil {
		return lab.Absent.Text
	}
	rate := r.Arm.Training(1).LR
	return lab.YesOrNo(rate == r.Rates[0] || rate == r.Rates[len(r.Rates)-1])
}
