package gpipe

import (
	"math"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// idle lists a parameter that it does not use.
type idle struct{ nn.Layer }

func (l idle) Params() []*nn.Param {
	return append(l.Layer.Params(), &nn.Param{Name: "idle", Shape: graph.Shape{1}, Init: nn.Zeros()})
}

// refusal is a change of a pipeline that can be planned, and what is said of it.
type refusal struct {
	want   string // of the error, a part
	change func(p *Pipeline, in *Input)
}

// What cannot be run is refused before anything is allocated, in one line that says what could.
func TestRefusals(t *testing.T) {
	untied := smallTranslation
	untied.model.Tie = transformer.TieNone
	rates := func(rates ...Rate) func(p *Pipeline, _ *Input) {
		return func(p *Pipeline, _ *Input) { p.Rates = rates }
	}
	groups := func(r, g, m int) func(p *Pipeline, _ *Input) {
		return func(p *Pipeline, _ *Input) { p.Replicas, p.Groups, p.MicroBatches = r, g, m }
	}
	scope := func(r, g int, s Scope) func(p *Pipeline, _ *Input) {
		return func(p *Pipeline, _ *Input) { p.Replicas, p.Groups, p.BatchNormScope = r, g, s }
	}
	parts := func(n int, more func(p *Pipeline, in *Input)) func(p *Pipeline, in *Input) {
		return func(p *Pipeline, in *Input) {
			if p.Spatial = n; more != nil {
				more(p, in)
			}
		}
	}
	devices := func(all ...Device) func(p *Pipeline, _ *Input) {
		return func(p *Pipeline, _ *Input) { p.Partitions, p.Devices = min(2, len(all)), all }
	}
	for _, of := range []struct {
		Pipeline
		in       Input
		refusals []refusal
	}{
		{small.pipeline(t), InputOf(small.data(0)), []refusal{
			{"9 partitions of 8 layers: want at most one partition a layer", func(p *Pipeline, _ *Input) { p.Partitions = 9 }},
			{"1000000000 partitions of 8 layers", func(p *Pipeline, _ *Input) { p.Partitions = 1e9 }},
			{"-1 partitions: want 1 to 8, the number of layers", func(p *Pipeline, _ *Input) { p.Partitions = -1 }},
			{"10 micro-batches of a mini-batch of 9: want at most one micro-batch an example", func(p *Pipeline, _ *Input) { p.MicroBatches = 10 }},
			{"-2 micro-batches: want 1 to 9, the mini-batch", func(p *Pipeline, _ *Input) { p.MicroBatches = -2 }},
			{"no layers", func(p *Pipeline, _ *Input) { p.Layers = nil }},
			{"no loss: want one such as nn.CrossEntropy{}, or your own", func(p *Pipeline, _ *Input) { p.Loss = nil }},
			{"balance", func(p *Pipeline, _ *Input) { p.Partitions, p.Balance = 2, []int{3, 4} }},
			{"balance", func(p *Pipeline, _ *Input) { p.Partitions, p.Balance = 2, []int{8, 0} }},
			{"2 costs for 8 layers", func(p *Pipeline, _ *Input) { p.Costs = []float64{1, 2} }},
			{"two layers named", func(p *Pipeline, _ *Input) { p.Layers = append(p.Layers, p.Layers[7]) }},
			{"two parameters with the path layer1/", func(p *Pipeline, _ *Input) {
				p.Layers = append(p.Layers, nn.Part("layer1", "another", small.pipeline(t).Layers[1]))
			}},
			{"layer 2 of 8 is nil: want an nn.Layer", func(p *Pipeline, _ *Input) { p.Layers[2] = nil }},
			{"gets no gradient: its layer lists it and does not use it", func(p *Pipeline, _ *Input) { p.Layers[2] = idle{p.Layers[2]} }},
			{"unknown schedule", func(p *Pipeline, _ *Input) { p.Schedule = 99 }},
			{"27 chunks on 3 devices of ", func(p *Pipeline, _ *Input) { *p = interleaved(*p, 3, 9, 4) }},
			{"2 chunks on each device with gpipe: want 1", func(p *Pipeline, _ *Input) { p.Partitions, p.Chunks = 2, 2 }},
			{"unknown partitioner", func(p *Pipeline, _ *Input) { p.Partitioner = 77 }},
			{"clipping at norm -1", func(p *Pipeline, _ *Input) { p.ClipNorm = -1 }},
			{"L2 of NaN", func(p *Pipeline, _ *Input) { p.L2 = math.NaN() }},
			{"want at least 0", func(p *Pipeline, _ *Input) { p.EMA.Decay = 1 }},
			{"does not fit its input", func(_ *Pipeline, in *Input) { in.Inputs[0].Shape = graph.Shape{99} }},
			{"a mini-batch of 0 examples", func(_ *Pipeline, in *Input) { *in = Input{} }},
			{"a mini-batch of 1000000000000 examples: want 1 to", func(_ *Pipeline, in *Input) { in.Examples = 1e12 }},
			{"on 8 partitions: want a product of at most", func(p *Pipeline, in *Input) { p.Partitions, p.MicroBatches, in.Examples = 8, 4e6, 4e6 }},
			{"wide: a result of matmul has shape (16777216,7,1000000)", func(p *Pipeline, in *Input) {
				in.Examples = MaxExamples
				p.Layers = append(p.Layers, nn.Sequential("wide", nn.NewDense("", nn.DenseConfig{In: small.model.Vocab, Out: 1e6})))
			}},

			{"3 devices for 2 partitions", devices(make([]Device, 3)...)},
			{"one kind", devices(Device{Kind: Host}, Device{Kind: Emulated})},
			{"want a host device", devices(Device{Kind: Emulated, Capacity: 1 << 20, Overcommit: true})},
			{"want a multiple of the page size", devices(Device{Capacity: 1<<20 + 64, Overcommit: true})},
			{"of 0 bytes", devices(Device{Overcommit: true})},

			{"6 groups on 2 replicas: want 2, 4, 8, ... groups", groups(2, 6, 1)},
			{"4 groups on 3 replicas: want 3, 6, 12, ... groups", groups(3, 4, 1)},
			{"-1 replicas: want 1 to", groups(-1, 1, 1)},
			{"-1 groups: want 1 or more", groups(1, -1, 1)},
			{"10 groups of a mini-batch of 9: want at most one group an example", groups(1, 10, 1)},
			{"10 groups of a mini-batch of 9: want at most one group an example", groups(10, 0, 1)},
			{"3 micro-batches in each of 4 groups of a mini-batch of 9: want at most one micro-batch an example", groups(1, 4, 3)},

			{`rate 0, of "layer1": a factor of -1: want 0 or more`, rates(Rate{Path: "layer1", Factor: -1})},
			{`rate 0, of "layer1": a factor of NaN: want 0 or more`, rates(Rate{Path: "layer1", Factor: math.NaN()})},
			{`rate 0, of "layer1": a factor of +Inf: want 0 or more`, rates(Rate{Path: "layer1", Factor: math.Inf(1)})},
			{`rate 0: no trained parameter's path begins with "layer77": want one such as embedding/table`, rates(Rate{Path: "layer77"})},
			{`rate 0: no trained parameter's path begins with "layer": want one such as embedding/table`, rates(Rate{Path: "layer"})},
			{`rate 0: "layer[": syntax error in pattern: want a path whose elements are patterns such as layer*`, rates(Rate{Path: "layer["})},
			{`rate 0: no trained parameter's path begins with "": want one such as embedding/table`, rates(Rate{})},
		}},
		{smallResNet.pipeline(t, false), InputOf(smallResNet.data(0)), []refusal{
			{"-1 parts of images: want 1 to 64", parts(-1, nil)},
			{"65 parts of images: want 1 to 64", parts(65, nil)},
			{"40 parts of images of 33 rows: want a row for each at least", parts(40, nil)},
			{"2 parts of images, and no input has images: want 1", parts(2, func(_ *Pipeline, in *Input) { in.Inputs[0].Shape = graph.Shape{7} })},
			{"2 parts of images with activations of type bf16: want f32, or 1", parts(2, func(p *Pipeline, _ *Input) { p.DType = graph.BF16 })},
			{"2 parts of images with batch norm over replicas: want the scope replica, or 1", parts(2, scope(2, 2, AllScope))},
			{"2 parts of images with a backward function in two: want a schedule without W, or 1", parts(2, func(p *Pipeline, _ *Input) {
				p.Schedule, p.Partitions, p.MicroBatches = schedule.ZBH1, 2, 2
			})},

			{"4 groups on 1 replicas: want one group on each, that is 1 groups or 4 replicas", scope(1, 4, AllScope)},
			{"4 groups on 2 replicas: want one group on each, that is 2 groups or 4 replicas", scope(2, 4, AllScope)},
			{"batch norm over 2 replicas of 1: want a number that divides them", scope(1, 0, 2)},
			{"batch norm over 3 replicas of 4: want a number that divides them", scope(4, 0, 3)},
			{"batch norm over 2 replicas with 4 groups on 2 replicas: want one group on each, that is 2 groups or 4 replicas", scope(2, 4, 2)},
			{"unknown scope -2 of batch norm", scope(2, 2, -2)},
		}},
		{smallAmoebaNet.pipeline(t, false), InputOf(smallAmoebaNet.data(0)), []refusal{
			{"1 value per channel", func(p *Pipeline, _ *Input) { p.MicroBatches = 9 }}, // an image whose map is a single pixel
		}},
		{untied.pipeline(t), InputOf(untied.data(0)), []refusal{
			{"no embedding's table is that of another layer: want a network with a tied softmax, or reduced gradients", func(p *Pipeline, _ *Input) { p.TiedGradients = GatherTied }},
		}},
		{smallTranslation.pipeline(t), InputOf(smallTranslation.data(0)), []refusal{
			{"with divided updates: want one of them", func(p *Pipeline, _ *Input) { p.TiedGradients, p.Replicas, p.ShardUpdate = GatherTied, 2, true }},
			{"unknown way 2 of tied gradients: want reduce or gather", func(p *Pipeline, _ *Input) { p.TiedGradients = 2 }},
		}},
	} {
		if _, err := of.Plans(of.in); err != nil {
			t.Fatal("before the change:", err)
		}
		for _, r := range of.refusals {
			p, in := of.Pipeline, of.in
			p.Layers, in.Inputs = append([]nn.Layer(nil), p.Layers...), append([]graph.Type(nil), in.Inputs...)
			r.change(&p, &in)
			testkit.Refused(p.Plans(in))(t, r.want)
		}
	}
}
