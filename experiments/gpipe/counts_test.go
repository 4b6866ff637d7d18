package gpipe

import (
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/lab/cells"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// What is counted of a network, a layer and a step is what can be counted by hand.
func TestCounts(t *testing.T) {
	amoebanet := countedNetwork{Name: "AmoebaNet-D", Model: train.Model{Name: "amoebanetd", Layers: 18, Filters: 208, Classes: 1000}}
	wide := countedNetwork{Name: "AmoebaNet-D", Model: train.Model{Name: "amoebanetd", Layers: 18, Filters: 256, Classes: 1000}}
	transformer := func(layers int) countedNetwork {
		return countedNetwork{Model: train.Model{Name: "transformer-lm", Layers: layers, Dim: 256, FF: 1024, Heads: 4, Vocab: 64, Seq: 128}}
	}
	large := countedNetwork{Model: train.Model{Name: "transformer-lm", Layers: 1663, Dim: 2048, FF: 8192, Heads: 32, Vocab: 32000, Seq: 1024}}
	for what, c := range map[string]struct {
		cell cells.Cell[counted]
		want counted
	}{
		"Transformer-1663":      {large.parameters(), counted{Parameters: 83_876_910_336}},
		"AmoebaNet-D (18, 208)": {amoebanet.parameters(), counted{Parameters: 81_505_540}},
		"a stem":                {wide.layer("stem"), counted{Parameters: 1856, Saved: 3_211_776, FLOPs: 43_352_064}},
	} {
		testkit.Equal(t, testkit.Must(c.cell.Make(t.Context()))(t), c.want, "%s", what)
	}
	// "The activation memory footprint increased four times but the model size stayed the same" (first
	// version, section 5).
	early, late := train.Model{Name: "amoebanetd", Layers: 6, Filters: 256, Classes: 1000}, train.Model{Name: "amoebanetd", Layers: 6, Filters: 256, Classes: 1000, Delayed: true}
	a := testkit.Must(countedNetwork{Model: early}.layer(allLayers).Make(t.Context()))(t)
	b := testkit.Must(countedNetwork{Model: late}.layer(allLayers).Make(t.Context()))(t)
	testkit.Near(t, float64(b.Saved)/float64(a.Saved), 4, 0.2, "activations of one that reduces late: ratio")
	testkit.Equal(t, [2]int64{a.Parameters, b.Parameters}, [2]int64{46_654_184, 46_654_184}, "parameters")
	testkit.Refused(wide.layer("none").Make(t.Context()))(t)
	// The device with the softmax has at least a layer's and the softmax's parameters, of 12 bytes
	// each, and activations beside; the positions' table is on the other one.
	step := testkit.Must(transformer(2).step(plannedStep{Accelerator: "tpuv3", DType: "bf16", KeepScores: true, K: 2, M: 4, Batch: 8, Checkpoint: "always"}).Make(t.Context()))(t)
	one := testkit.Must(transformer(1).parameters().Make(t.Context()))(t)
	if least := 12 * (one.Parameters - 256*128); step.Fullest <= least || step.Activations <= 0 || step.Activations >= step.Fullest {
		t.Errorf("%+v, want more than %d", step, least)
	}
	// Two devices, one micro-batch: 2 (f + b) + r with f, r, b = 1/2, 1/2, 1.
	even := testkit.Must(timed.EvenStep(train.Setup{Partitions: 2, MicroBatches: 1, Schedule: schedule.GPipe, Checkpoint: schedule.Always}))(t)
	testkit.Equal(t, even, 3.5, "even stages")
}
