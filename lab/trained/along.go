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

// arrived is how many trainings come to their target's loss, and updatesCell the median of when.
func arrived(r *Reporting, at Row) any {
	steps := r.updates(at.Own, r.Results)
	if steps == nil {
		return nil
	}
	n := 0
	for _, of := range steps {
		if of <= float64(at.Own.Arm.Training(1).Steps) {
			n++
		}
	}
	return lab.Joined("%v of %v", n, len(steps))
}

func updatesCell(r *Reporting, at Row) any {
	steps := r.updates(at.Own, r.Results)
	switch median := stats.Median(steps); {
	case steps == nil:
		return nil
	case median > float64(at.Own.Arm.Training(1).Steps):
		return lab.Absent
	default:
		return lab.Fixed(median, 0)
	}
}
