package train_test

import (
	"math"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/train"
)

// The rows of a profile add up to the steps, for every kind of network and device, and
// every kernel says how much it does.
func TestByOpAddsUp(t *testing.T) {
	testkit.CI(t) // measures the roofline for each
	for _, model := range []train.Model{
		{Name: train.LanguageModel, Layers: 2, Dim: 16, FF: 32, Heads: 2, Vocab: 32, Seq: 8},
		{Name: "resnet50", Width: 4, Image: 32, Classes: 10},
		{Name: train.AmoebaNet, Layers: 3, Filters: 8, Image: 32, Classes: 10},
	} {
		for _, setup := range []train.Setup{
			{Partitions: 1, MicroBatches: 1},
			{Partitions: 2, MicroBatches: 2, Threads: 2},
			{Partitions: 2, MicroBatches: 2, Device: gpipe.Emulated},
			{Partitions: 2, MicroBatches: 2, Spatial: 2},
			{Partitions: 1, MicroBatches: 2, Device: gpipe.Emulated, Spatial: 3},
		} {
			if setup.Spatial > 1 && model.Name == train.LanguageModel {
				continue
			}
			r := testkit.Must(train.Benching{Model: model, Setup: setup, Batch: 8, Steps: 2, WarmUp: 1, Seed: 1, ByOp: true}.Run(t.Context(), nil))(t)
			var sum, kernels float64
			for _, row := range r.ByOp.Rows {
				sum += row.Seconds
				if row.Task != "" {
					kernels += row.Seconds
					if row.Calls == 0 || row.Bytes == 0 || !(row.OfRoof > 0) {
						t.Errorf("%v: %+v", model, row)
					}
				}
			}
			step := (r.StepSeconds.All[0] + r.StepSeconds.All[1]) / 2
			devices := float64(setup.Partitions)
			if math.Abs(sum/(devices*step)-1) > 0.03 || math.Abs(r.ByOp.StepSeconds/step-1) > 1e-9 || kernels <= 0 || kernels > sum {
				t.Errorf("%v, %+v: rows of %v s, kernels %v s, in %v devices' steps of %v s", model, setup, sum, kernels, devices, step)
			}
			if r.ByOp.Roof.Threads != max(setup.Threads, 1)*max(setup.Spatial, 1) || !(r.ByOp.Roof.FLOPs > 0) || !(r.ByOp.Roof.Bandwidth > 0) {
				t.Errorf("a roof of %+v", r.ByOp.Roof)
			}
		}
	}
}
