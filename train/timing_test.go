package train

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/snapshot"
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

// A snapshot counts where only those before it could not be removed.
func TestSnapshotWithoutPruning(t *testing.T) {
	var said string
	k := &keeper{training: &Training{Notice: func(what string) { said = what }}}
	k.ended(3, fmt.Errorf("%w: busy", snapshot.ErrOlder))
	if k.whole != 3 || k.failed != 0 || said != "a snapshot after step 3, but older ones could not be removed: busy" {
		t.Errorf("%d, %d failed, %q", k.whole, k.failed, said)
	}
}
