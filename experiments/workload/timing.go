package workload

import (
	"runtime"

	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
)

// TimingBatch is a mini-batch to take times with, which do not depend on what is
// in it.
func TimingBatch(m Model, examples int, seed uint64) (nn.Batch, error) {
	next, err := m.Random(examples, seed)
	if err != nil {
		return nn.Batch{}, err
	}
	return next(0)
}

// TimingBatches are those that were made already.
type TimingBatches map[timingBatchKey]nn.Batch

type timingBatchKey struct {
	model    Model
	examples int
}

// Of is a timingBatch, made once: that of large images takes as long as a step.
func (b TimingBatches) Of(m Model, examples int, seed uint64) (nn.Batch, error) {
	k := timingBatchKey{m, examples}
	batch, ok := b[k]
	if !ok {
		var err error
		if batch, err = TimingBatch(m, examples, seed); err != nil {
			return nn.Batch{}, err
		}
		b[k] = batch
	}
	return batch, nil
}

// EvenStep is the length of a step by the closed form, in units of the whole
// network's F of a mini-batch: even stages, no link, no update, f:r:b = 1:1:2.
func EvenStep(s Setup) (float64, error) {
	f := 1 / float64(s.Partitions*s.MicroBatches)
	return schedule.StepTime(s.Schedule, s.Checkpoint, s.LateRecompute, s.Partitions, s.MicroBatches, f, f, 2*f)
}

// CutStep is the length of a step on stages cut out of layers with the given
// costs, f:r:b = 1:1:2, in the unit of the costs: a replay of the schedule.
func CutStep(s Setup, costs []float64) (float64, error) {
	cut, err := partition.Split(s.Partitioner, costs, s.Partitions)
	if err != nil {
		return 0, err
	}
	stages, _ := StageCosts(costs, cut.Sizes)
	lists, err := schedule.Build(s.Schedule, s.Partitions, s.MicroBatches, s.Checkpoint, s.LateRecompute)
	if err != nil {
		return 0, err
	}
	tl, err := timeline.Replay(lists, timeline.Costs{Task: func(at place.Place, task schedule.Task) float64 {
		f := stages[at.Stage] / float64(s.MicroBatches)
		if task.Kind == schedule.Backward {
			return 2 * f
		}
		return f
	}})
	if err != nil {
		return 0, err
	}
	return tl.Span(), nil
}

// HostCores is how many cores host devices may count on.
func HostCores() int { return min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }
