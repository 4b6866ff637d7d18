package gpipe

import (
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/lab/cells"
	"gpipebench/lab/labtest"
	"gpipebench/train"
)

// What is counted is what runs on emulated devices send, to the byte: between stages, whatever the schedule and M, and
// as sums of what T parts have of an operation; by channels it is less.
func TestSection6Counts(t *testing.T) {
	lm := train.Model{Name: train.LanguageModel, Layers: 4, Dim: 32, FF: 64, Heads: 8, Vocab: 512, Seq: 16}
	images := train.Model{Name: "resnet50", Width: 8, Image: 32, Classes: 10, ZeroInit: true}
	for name, c := range map[string]struct {
		model train.Model
		way   way6
	}{
		"GPipe":     {lm, way6{K: 3, M: []int{4}}},
		"one batch": {lm, way6{K: 2, M: []int{1}}},
		"PipeDream": {lm, way6{K: 3, M: []int{1}, Schedule: schedule.PipeDream.String(), Window: 4}},
		"images":    {images, way6{K: 4, M: []int{2}}},
		"T = 2":     {lm, way6{T: 2, M: []int{1}}},
		"T = 4":     {lm, way6{T: 4, M: []int{2}}},
		"channels":  {images, way6{T: 2, M: []int{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := heldNetwork{On: cells.On{Model: c.model}, Batch: 8}
			counted := testkit.Must(n.traffic(t.Context(), c.way))(t)
			s := c.way.step(heldNetwork{On: cells.On{Accelerator: "p100", DType: "f32", Optimizer: "sgd"}}, c.way.M[0], "never", false).Setup
			s.Device, s.Cost, s.Threads, s.Tensor, s.Blocks = gpipe.Emulated, train.FLOPs, 1, c.way.T, c.way.T
			l := testkit.Must(train.Training{Model: c.model, Data: "synthetic", Setup: s, Batch: 8, Steps: max(1, c.way.Window), Optimizer: "sgd", LR: 0.01, Seed: 1}.Open(t.Context()))(t)
			defer l.Close()
			step := testkit.Must(l.Step(t.Context()))(t)
			var between, sums, rest int64
			for _, of := range step.Traffic {
				switch of.What {
				case gpipe.BoundaryActivations, gpipe.BoundaryGradients:
					between += of.Bytes
				case gpipe.PartReduces:
					sums += of.Bytes
				default:
					rest += of.Bytes
				}
			}
			if c.way.T > 1 && c.model.Images() { // more than is counted: inputs are gathered for the weights' gradients once more
				if all := between + sums + rest; all <= counted.Gathered {
					t.Errorf("%d sent by channels: counted %d", all, counted.Gathered)
				}
				return
			}
			if window := int64(max(1, c.way.Window)); between != window*counted.Boundary || sums != counted.Reduced {
				t.Errorf("%d between stages and %d in sums: counted %d and %d", between, sums, window*counted.Boundary, counted.Reduced)
			}
			if rest > sums/50 { // tokens, and what parts of a softmax tell each other
				t.Errorf("%d of other kinds beside %d in sums", rest, sums)
			}
		})
	}
	labtest.CheckRefused(t, Paper.Experiment("section6-links"), [][3]string{
		{`"SPMD, T = 8", "PipeDream`, `"SPMD, T = 9", "PipeDream`, `no way "SPMD, T = 9"`},
		{`m: [1, 4, 8, 32]`, `m: [3]`, "32 examples in 3 micro-batches: want a multiple"},
		{`ways: ["GPipe, K = 8", `, `ways: [`, "want GPipe, K = 8, its base, as well"},
		{`t: 8, m: [1, 4, 8, 32], checkpoints: [always, never]`, `t: 8, m: [1, 4, 8, 32], checkpoints: [except-last]`, "always or never"},
	})
}

// A step is drawn whether its links go through the host, where the clock has a list of events, or are direct, where it
// makes them as they are asked for.
func TestSection6Draws(t *testing.T) {
	n := heldNetwork{On: cells.On{Model: train.Model{Name: train.LanguageModel, Layers: 4, Dim: 32, FF: 64, Heads: 8, Vocab: 512, Seq: 16}, DType: "f32", Optimizer: "sgd"}, Batch: 8}
	for _, n.Accelerator = range []string{"p100", "tpuv3"} {
		for _, w := range []way6{
			{K: 2, M: []int{4}, Checkpoints: []string{"never"}},
			{K: 2, M: []int{1}, Checkpoints: []string{"never"}, Schedule: schedule.PipeDream.String(), Window: 8},
			{T: 2, M: []int{1}, Checkpoints: []string{"never"}},
		} {
			d := testkit.Must(n.drawn(t.Context(), w))(t)
			tasks := 0
			for _, e := range d.Events {
				if e.Kind.Task() {
					tasks++
				}
			}
			if want := 4 * w.M[0] * d.Updates; tasks != want { // F and B of each on two devices
				t.Errorf("%s, %+v: %d tasks drawn, want %d", n.Accelerator, w, tasks, want)
			}
		}
	}
}
