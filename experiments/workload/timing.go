package workload

import (
	"context"
	"runtime"

	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
)

// Timing opens trainings to time their steps. Those that have mini-batches or the times
// of layers in common share them, as making them takes as long as steps do; so
// pipelines that differ only in how they are cut are cut by the same times. The zero
// value is ready.
type Timing struct {
	batches map[timingBatchKey]nn.Batch
	costs   map[layerCostsKey][]float64 // in seconds
}

type timingBatchKey struct {
	model    Model
	examples int
	seed     uint64
}

type layerCostsKey struct {
	model        Model
	batch, micro int
	threads      int
}

// Open opens a training for its steps alone. All of them are on one mini-batch of
// its model's kind; neither its data nor a file of weights is read.
func (g *Timing) Open(ctx context.Context, t Training) (*Loop, error) {
	if g.costs == nil {
		g.batches, g.costs = map[timingBatchKey]nn.Batch{}, map[layerCostsKey][]float64{}
	}
	random, err := t.Model.Random(t.Batch, t.Seed)
	if err != nil {
		return nil, err
	}
	cut := layerCostsKey{t.Model, t.Batch, t.Setup.MicroBatches, t.Setup.Threads}
	l, err := t.open(ctx, toTrain, g.costs[cut])
	if err != nil {
		return nil, err
	}
	if t.Setup.Cost == Time && l.Pipeline.Costs != nil {
		g.costs[cut] = l.Pipeline.Costs
	}
	l.Steps = t.Steps
	// Only once the pipeline is open, which finds out what is too much.
	key := timingBatchKey{t.Model, t.Batch, t.Seed}
	batch, ok := g.batches[key]
	if !ok {
		if batch, err = random(); err != nil {
			l.Close()
			return nil, err
		}
		g.batches[key] = batch
	}
	l.batch = func(int) (nn.Batch, error) { return batch, nil }
	return l, nil
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
	stages := partition.StageCosts(costs, cut.Sizes)
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
