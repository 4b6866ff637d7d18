package train

import (
	"context"

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
	l.same = batch
	return l, nil
}
