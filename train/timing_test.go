package train

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/nn"
)

// Layers whose times are known are cut by them; those of another micro-batch are
// measured. A translator's steps are timed, too.
func TestTiming(t *testing.T) {
	training := Training{
		Model: Model{Name: Translator, Layers: 1, Dim: 16, FF: 32, Heads: 2, Vocab: 50, Seq: 8}, Batch: 2,
		Optimizer: "momentum", LR: 0.001, LRSchedule: "constant",
		Setup: Setup{Partitions: 2, MicroBatches: 1, Device: gpipe.Emulated, Threads: 1, Cost: Time},
	}
	layers, err := training.Model.Build()
	if err != nil {
		t.Fatal(err)
	}
	costs := slices.Repeat([]float64{1}, len(layers))
	costs[len(layers)-1] = 9
	known := layerCostsKey{training.Model, 2, 1, 1}
	g := &Timing{costs: map[layerCostsKey][]float64{known: costs}, batches: map[timingBatchKey]nn.Batch{}}
	for _, m := range []int{1, 2} {
		training.Setup.MicroBatches = m
		l, err := g.Open(t.Context(), training)
		if err != nil {
			t.Fatal(err)
		}
		if step, err := l.Step(t.Context()); err != nil || step.Examples != 2 {
			t.Errorf("M=%d: %+v, %v", m, step, err)
		}
		if sizes, _ := l.Trainer.Sizes(); m == 1 && !slices.Equal(sizes, []int{len(layers) - 1, 1}) {
			t.Errorf("cut %v, want the last layer by itself", sizes)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(g.costs) != 2 || len(g.batches) != 1 {
		t.Errorf("%d networks measured, %d mini-batches made, want 2 and 1", len(g.costs), len(g.batches))
	}
}

// A training that was interrupted opens no pipeline, which may take seconds.
func TestInterruptedOpen(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(Timing).Open(ctx, Training{
		Model: Model{Name: Translator, Layers: 1, Dim: 16, FF: 32, Heads: 2, Vocab: 50, Seq: 8}, Batch: 2,
		Optimizer: "momentum", LR: 0.001, LRSchedule: "constant",
		Setup: Setup{Partitions: 2, MicroBatches: 1, Device: gpipe.Emulated, Threads: 1},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
