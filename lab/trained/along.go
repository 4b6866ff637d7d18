package trained

import (
	"slices"

	"gpipebench/internal/stats"
	"gpipebench/lab"
)

// never is how many times all of its steps a training counts that does not come to its target's loss.
const never = 10

// updates are the steps up to the first evaluation at which an arm's trainings have the held-out loss of its
// target at the end, or are within the spec's nats of it, by seed. Nil: it has no target.
func (f *Frame) updates(r *Result, all []*Result) (steps []float64) {
	if r.Target == "" {
		return nil
	}
	target := all[f.Named(r.Target)]
	for i, run := range r.Runs {
		t := r.Arm.Training(uint64(i + 1))
		there := func(loss float64) bool { return loss <= target.Runs[i].HeldOut+f.Within }
		if at := slices.IndexFunc(run.Along, there); at >= 0 {
			steps = append(steps, float64((at+1)*t.EvalEvery))
		} else {
			steps = append(steps, float64(never*t.Steps))
		}
	}
	return steps
}

// updatesCells are the median of an arm's updates, and how many trainings come to their target's loss.
func (r *Reporting) updatesCells(a *Result) (median, arrived lab.Value) {
	steps := r.updates(a, r.Results)
	if steps == nil {
		return median, arrived
	}
	all, n := float64(a.Arm.Training(1).Steps), 0
	for _, of := range steps {
		if of <= all {
			n++
		}
	}
	median = lab.Absent
	if of := stats.Median(steps); of <= all {
		median = lab.Fixed(of, 0)
	}
	return median, lab.Joined("%v of %v", n, len(steps))
}
