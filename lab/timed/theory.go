package timed

import (
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/train"
)

// theory says what is computed of a schedule alone.
const theory = "Theory, even: the closed form for equal stages, f:r:b = 1:1:2. Theory, cut: the schedule replayed for the stages as cut, with FLOPs as times, f:r:b = 1:1:2. Closed form: the same formula as for theory, even, with the means of the measured f, r, b, setup and update."

// EvenStep is the length of a step by the closed form, in units of the whole
// network's F of a mini-batch: even stages, no link, no update, f:r:b = 1:1:2.
func EvenStep(s train.Setup) (float64, error) {
	f := 1 / float64(s.Partitions*s.MicroBatches)
	return schedule.StepTime(s.Schedule, s.Checkpoint, s.LateRecompute, s.Partitions, s.MicroBatches, f, f, 2*f)
}

// EvenParts is the breakdown of a step of even stages, f:r:b = 1:1:2, in units of
// a stage's F of a mini-batch.
func EvenParts(s train.Setup) (clock.Parts, error) {
	lists, costs, err := ideal(s, slices.Repeat([]float64{1}, s.Partitions))
	if err != nil {
		return clock.Parts{}, err
	}
	return clock.Breakdown(lists, costs)
}

// CutStep is the length of a step on stages cut out of layers with the given
// costs, f:r:b = 1:1:2, in the unit of the costs: a replay of the schedule.
func CutStep(s train.Setup, layers []float64) (float64, error) {
	cut, err := partition.Split(s.Partitioner, layers, s.Partitions)
	if err != nil {
		return 0, err
	}
	lists, costs, err := ideal(s, partition.StageCosts(layers, cut.Sizes))
	if err != nil {
		return 0, err
	}
	tl, err := clock.Replay(lists, costs)
	if err != nil {
		return 0, err
	}
	return tl.Span(), nil
}

// ideal is a step of stages with the given F of a mini-batch, f:r:b = 1:1:2,
// without links and updates.
func ideal(s train.Setup, stages []float64) ([][]schedule.Task, clock.Costs, error) {
	lists, err := schedule.Build(s.Schedule, s.Partitions, s.MicroBatches, s.Checkpoint, s.LateRecompute)
	return lists, clock.Costs{Task: func(at place.Place, t schedule.Task) float64 {
		f := stages[at.Stage] / float64(s.MicroBatches)
		if t.Kind == schedule.Backward {
			return 2 * f
		}
		return f
	}}, err
}

// Against is the throughput of a setup relative to that of a base, where step
// returns how long a step takes.
func Against(step func(train.Setup) (float64, error), base, s train.Setup) (float64, error) {
	b, err := step(base)
	if err != nil {
		return 0, err
	}
	t, err := step(s)
	return b / t, err
}

// Theory is the throughput of a setup relative to that of a base: of even stages,
// by the closed form, and of the stages as cut, by a replay, with each of several
// costs of the layers; f:r:b = 1:1:2, no link, no update.
func Theory(base, s train.Setup, costs ...[]float64) ([]lab.Value, error) {
	steps := []func(train.Setup) (float64, error){EvenStep}
	for _, of := range costs {
		steps = append(steps, func(s train.Setup) (float64, error) { return CutStep(s, of) })
	}
	var all []lab.Value
	for _, step := range steps {
		x, err := Against(step, base, s)
		if err != nil {
			return nil, err
		}
		all = append(all, lab.Fixed(x, 2))
	}
	return all, nil
}
