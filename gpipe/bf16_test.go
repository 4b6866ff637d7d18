package gpipe

import (
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

// TestG1BF16 is TestG1 and TestG1Replicas for activations in bfloat16, another hash than that
// of float32.
func TestG1BF16(t *testing.T) {
	l := small
	l.batch, l.steps = 29, 2
	narrow, wide := l.train(t, l.pipeline(t).bf16()), l.train(t, l.pipeline(t))
	if wide.hash == narrow.hash || wide.initial != narrow.initial {
		t.Errorf("float32 ends with %s from %s, bfloat16 with %s from %s: want other bits from the same weights", wide.hash, wide.initial, narrow.hash, narrow.initial)
	}
	checkG1(t, groupsWays([]int{1, 4}, l.batch), l.batch, byGroups, func(t testing.TB, w way) outcome {
		return l.train(t, w.of(l.cut(t, w.fine)).bf16())
	})
}

// TestG1BF16Images is TestG1Images for activations in bfloat16.
func TestG1BF16Images(t *testing.T) { imagesG1(t, graph.BF16) }

// TestBF16MemoryIsHalf: activations take 0.50 to 0.52 of their memory in float32, of
// which the rest is statistics, packing buffers and the blocks that are converted.
func TestBF16MemoryIsHalf(t *testing.T) {
	lm := must(transformer.LM(transformer.Config{Layers: 6, Dim: 256, FeedForward: 1024, Heads: 8, Vocab: 8192, SeqLen: 128}))(t)
	amoeba := must(amoebanet.New(amoebanet.Config{Layers: 6, Filters: 64, Classes: 1000, Image: 224}))(t)
	res := must(resnet.New(resnet.Config{Blocks: [4]int{3, 4, 23, 3}, Width: 64, Classes: 1000, Image: 224}))(t)
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
					for _, plan := range must(p.Plans(c.in))(t).Plans {
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
