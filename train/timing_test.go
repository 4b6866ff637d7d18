package train

import (
	"context"
	"slices"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
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
	layers := testkit.Must(training.Model.Build())(t)
	costs := slices.Repeat([]float64{1}, len(layers))
	costs[len(layers)-1] = 9
	known := layerCostsKey{training.Model, 2, 1, 1}
	g := &Timing{costs: map[layerCostsKey][]float64{known: costs}, batches: map[timingBatchKey]nn.Batch{}}
	for _, m := range []int{1, 2} {
		training.Setup.MicroBatches = m
		l := testkit.Must(g.Open(t.Context(), training))(t)
		testkit.Equal(t, testkit.Must(l.Step(t.Context()))(t).Examples, 2, "M=%d", m)
		if sizes, _ := l.Trainer.Sizes(); m == 1 && !slices.Equal(sizes, []int{len(layers) - 1, 1}) {
			t.Errorf("cut %v, want the last layer by itself", sizes)
		}
		testkit.Equal(t, l.Close(), nil)
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
	testkit.Is(t, err, context.Canceled)
}
