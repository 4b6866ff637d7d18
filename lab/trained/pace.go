package trained

import (
	"errors"
	"fmt"

	"gpipebench/lab"
	"gpipebench/train"
)

// Pace says how the trainings of a profile go, whatever their number of steps: so arms of other
// lengths, and pilots, have schedules alike.
type Pace struct {
	// WarmUp is the part of the steps over which the learning rate rises; over the rest it falls as a
	// cosine, or stays if Constant. 0: as the training's schedule says.
	WarmUp   float64 `yaml:"warm_up" want:"0..0.9"`
	Constant bool    `yaml:"constant"`
	// Evaluations is how many a training has, at equal distances, by which its best weights are kept;
	// 0: as the training says.
	Evaluations int `yaml:"evaluations" want:"0..10000"`
	// Patience ends a training after this many evaluations without a lower loss than before; 0: it makes
	// all its steps.
	Patience int `yaml:"patience" want:"0..10000"`
}

// set sets what follows from a training's steps.
func (p Pace) set(t *train.Training) {
	if p.WarmUp > 0 {
		rising := min(max(1, int(p.WarmUp*float64(t.Steps))), t.Steps-1)
		t.LRSchedule = fmt.Sprintf("warmup:%d,cosine:%d", rising, t.Steps-rising)
		if p.Constant {
			t.LRSchedule = fmt.Sprintf("warmup:%d,constant", rising)
		}
	}
	if p.Evaluations > 0 {
		t.Keep, t.EvalEvery, t.Patience = train.KeepBest, max(1, t.Steps/p.Evaluations), p.Patience
	}
}

// pace is an arm's own, or that of its profile.
func (p Size) pace(a ArmSpec) Pace {
	if a.Pace != nil {
		return *a.Pace
	}
	return p.Pace
}

// check refuses what a training says itself, and patience without evaluations.
func (p Pace) check(t lab.TrainingSpec) *lab.Problem {
	switch {
	case p.WarmUp > 0 && t.LRSchedule != "":
		return lab.At(errors.New("want none, as it follows from warm_up"), "training", "lr_schedule")
	case p.Evaluations > 0 && t.EvalEvery > 0:
		return lab.At(errors.New("want none, as it follows from evaluations"), "training", "eval_every")
	case p.Patience > 0 && p.Evaluations == 0:
		return lab.At(errors.New("want evaluations, by which a training ends"), "pace", "patience")
	case p.Constant && p.WarmUp == 0:
		return lab.At(errors.New("want warm_up, after which the rate stays"), "pace", "constant")
	}
	return nil
}
