package gpipe

import (
	"testing"

	"gopkg.in/yaml.v3"

	"gpipebench/gpipe"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/lab/cells"
	"gpipebench/lab/labtest"
	"gpipebench/train"
)

// What is counted is what runs on emulated devices send, to the byte and the message, and of a Transformer what arithmetic
// says: of an activation's bytes two at each boundary between stages, and for each of T parts less one two in four sums a
// layer, an embedding's and a softmax's. The rule for networks that no parts run is what ResNet's plan says.
func TestSection6Counts(t *testing.T) {
	lm := train.Model{Name: train.LanguageModel, Layers: 4, Dim: 32, FF: 64, Heads: 8, Vocab: 512, Seq: 16}
	images := train.Model{Name: "resnet50", Width: 8, Image: 32, Classes: 10, ZeroInit: true}
	const batch, activation = 8, 8 * 16 * 32 * plan.FloatBytes
	for name, c := range map[string]struct {
		model             train.Model
		way               way6
		boundary, reduced int64 // in activations
	}{
		"GPipe":     {lm, way6{K: 3, M: []int{4}}, 4, 0},
		"one batch": {lm, way6{K: 2, M: []int{1}}, 2, 0},
		"PipeDream": {lm, way6{K: 3, M: []int{1}, Schedule: schedule.PipeDream.String(), Window: 4}, 4, 0},
		"images":    {images, way6{K: 4, M: []int{2}}, 0, 0},
		"T = 2":     {lm, way6{T: 2, M: []int{1}}, 0, 2 * 18},
		"T = 4":     {lm, way6{T: 4, M: []int{2}}, 0, 6 * 18},
		"channels":  {images, way6{T: 2, M: []int{1}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := heldNetwork{On: cells.On{Model: c.model}, Batch: batch}
			counted := testkit.Must(n.traffic(t.Context(), c.way))(t)
			if c.boundary+c.reduced > 0 {
				testkit.Equal(t, [2]int64{counted.Boundary, counted.Reduced}, [2]int64{c.boundary * activation, c.reduced * activation}, "counted")
			}
			s := c.way.step(heldNetwork{On: cells.On{Accelerator: "p100", DType: "f32", Optimizer: "sgd"}}, c.way.M[0], "never", false).Setup
			s.Device, s.Cost, s.Threads, s.Tensor, s.Blocks = gpipe.Emulated, train.FLOPs, 1, c.way.T, c.way.T
			l := testkit.Must(train.Training{Model: c.model, Data: "synthetic", Setup: s, Batch: batch, Steps: max(1, c.way.Window), Optimizer: "sgd", LR: 0.01, Seed: 1}.Open(t.Context()))(t)
			defer l.Close()
			sent := sentBytes{MACs: counted.MACs, Ruled: counted.Ruled, Divided: counted.Divided}
			for _, of := range testkit.Must(l.Step(t.Context()))(t).Traffic {
				sent.add(of)
			}
			window := int64(max(1, c.way.Window))
			counted.Boundary, counted.Messages = window*counted.Boundary, window*counted.Messages
			testkit.Equal(t, sent, counted, "sent")
		})
	}
	for _, parts := range []int{2, 4} {
		n := heldNetwork{On: cells.On{Model: images}, Batch: batch}
		want := testkit.Must(n.traffic(t.Context(), way6{T: parts}))(t)
		others := int64(parts - 1) // which get the labels, forward and backward
		rule := sentBytes{MACs: want.MACs, Ruled: want.Ruled, Divided: want.Divided, Gathered: 2 * others * batch * plan.FloatBytes, Messages: 2 * others}
		rule.byChannels(testkit.Must(traced(images, images.Input(batch)))(t), parts)
		testkit.Equal(t, rule, want, "%d parts by the rule", parts)
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

// What is counted or modelled has one size, as results/reference-full/README.md says.
func TestSection6Sizes(t *testing.T) {
	for _, id := range []string{"section6", "section6-traffic", "section6-links", "section6-memory", "section6-depth"} {
		var spec struct{ Profiles map[string]section6Profile }
		testkit.NoError(t, yaml.Unmarshal([]byte(Paper.Experiment(id).Spec()), &spec))
		testkit.Equal(t, spec.Profiles["full"], spec.Profiles["quick"], "%s", id)
	}
}
