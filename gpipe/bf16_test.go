package gpipe

import (
	"slices"
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/models/amoebanet"
	"gpipebench/models/resnet"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// bf16 is p with activations in bfloat16.
func (p Pipeline) bf16() Pipeline {
	p.DType = graph.BF16
	return p
}

// TestG1BF16 is TestG1 for activations in bfloat16, another hash than that of float32.
func TestG1BF16(t *testing.T) {
	l := small
	want := l.train(t, l.pipeline(t).bf16())
	want.changes(t)
	if wide := l.train(t, l.pipeline(t)); wide.hash == want.hash || wide.initial != want.initial {
		t.Errorf("float32 ends with %s from %s, bfloat16 with %s from %s: want other bits from the same weights", wide.hash, wide.initial, want.hash, want.initial)
	}
	everyWay(t, l.batch, func(t *testing.T, w way) {
		l := l
		l.model.Fine = w.fine
		if got := l.train(t, w.of(l.pipeline(t)).bf16()); got != want {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// TestG1BF16Replicas: one hash over replicas and all other ways to run four groups.
func TestG1BF16Replicas(t *testing.T) {
	l := small
	l.batch, l.steps = 29, 2
	p := l.pipeline(t).bf16()
	p.Groups = 4
	want := l.train(t, p)
	want.changes(t)
	everyWayOf(t, groupWays(4, l.batch), l.batch, func(t *testing.T, w way) {
		l := l
		l.model.Fine = w.fine
		if got := l.train(t, w.of(l.pipeline(t)).bf16()); got != want {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// TestG1BF16Images: one hash over all ways without batch norm, and one at each M with
// it.
func TestG1BF16Images(t *testing.T) {
	type bits struct{ network, micro int }
	wants := map[bits]outcome{}
	all := []images{smallConvolutions, smallAmoebaNet, smallAmoebaNetB, smallResNet}
	names := []string{"convolutions", "amoebanet", "amoebanet-b", "resnet"}
	if testing.Short() { // minutes with the race detector, and TestG1Images has the tasks of the others
		all, names = all[:1], names[:1]
	}
	everyWayOf(t, append(slices.Clone(factors), variants("network", names...)), 9, func(t *testing.T, w way) {
		n := all[w.variant]
		w.MicroBatches = min(w.MicroBatches, n.sizes[0]/n.least)
		of := bits{w.variant, 1}
		if w.variant > 0 {
			of.micro = w.MicroBatches
		}
		want, ok := wants[of]
		if !ok {
			p := n.pipeline(t, false).bf16()
			p.MicroBatches = of.micro
			want = train(t, p, len(n.sizes), n.data)
			want.changes(t)
			wants[of] = want
		}
		if got := train(t, w.of(n.pipeline(t, w.fine && w.variant == 3)).bf16(), len(n.sizes), n.data); got != want {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// TestBF16MemoryIsHalf: activations take 0.50 to 0.52 of their memory in float32, of
// which the rest is statistics, packing buffers and the blocks that are converted.
func TestBF16MemoryIsHalf(t *testing.T) {
	lm, err := transformer.LM(transformer.Config{Layers: 6, Dim: 256, FeedForward: 1024, Heads: 8, Vocab: 8192, SeqLen: 128})
	if err != nil {
		t.Fatal(err)
	}
	amoeba, err := amoebanet.New(amoebanet.Config{Layers: 6, Filters: 64, Classes: 1000, Image: 224})
	if err != nil {
		t.Fatal(err)
	}
	res, err := resnet.New(resnet.Config{Blocks: [4]int{3, 4, 23, 3}, Width: 64, Classes: 1000, Image: 224})
	if err != nil {
		t.Fatal(err)
	}
	of := func(examples int, dt graph.DType, target graph.Shape, in ...int) Input {
		return Input{Examples: examples, Inputs: []graph.Type{{Shape: in, DType: dt}}, Targets: []graph.Type{{Shape: target, DType: graph.I32}}}
	}
	for _, c := range []struct {
		name   string
		layers []nn.Layer
		in     Input
	}{
		{"transformer-lm", lm, of(16, graph.I32, graph.Shape{128}, 128)},
		{"amoebanet", amoeba, of(16, graph.F32, graph.Shape{}, 224, 224, 3)},
		{"resnet", res, of(16, graph.F32, graph.Shape{}, 224, 224, 3)},
	} {
		for _, how := range []schedule.Checkpoint{schedule.Always, schedule.Never} {
			for _, k := range []int{1, 4} {
				p := Pipeline{Layers: c.layers, Loss: nn.CrossEntropy{}, Partitions: k, MicroBatches: k, Checkpoint: how}
				bytes := func(p Pipeline) (activations int64) {
					planned, err := p.Plans(c.in)
					if err != nil {
						t.Fatal(err)
					}
					for _, plan := range planned.Plans {
						activations += plan.Bytes[Boundary] + plan.Bytes[Residuals] + plan.Bytes[Workspace]
					}
					return activations
				}
				ratio := float64(bytes(p.bf16())) / float64(bytes(p))
				t.Logf("%s, K = %d, %v: %.4f of %.1f MiB", c.name, k, how, ratio, float64(bytes(p))/(1<<20))
				if ratio < 0.50 || ratio > 0.52 {
					t.Errorf("%s, K = %d, %v: activations take %.4f of float32's memory, want 0.50 to 0.52", c.name, k, how, ratio)
				}
			}
		}
	}
}
