package simulate

import (
	"context"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/train"
)

// Costs by time are one positive number a layer, for any model and threads.
func TestTimeCosts(t *testing.T) {
	d := Describing{
		Model: train.Model{Name: "transformer-lm", Layers: 2, Dim: 16, FF: 32, Heads: 2, Vocab: 20, Seq: 8, Tied: "softmax", Fine: true},
		Setup: train.Setup{Partitions: 3, MicroBatches: 1, Cost: train.Time, Threads: 2, Device: gpipe.Host},
		Batch: 2,
	}
	r := testkit.Must(d.Run(context.Background()))(t)
	if len(r.Partition.Sizes) != 3 || len(r.Layers) != 6 {
		t.Errorf("partition %v of %d layers", r.Partition.Sizes, len(r.Layers))
	}
	for _, c := range r.Partition.Costs {
		if !(c > 0) {
			t.Errorf("costs %v", r.Partition.Costs)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	_, err := d.Run(ctx)
	testkit.Is(t, err, context.Canceled)
}
