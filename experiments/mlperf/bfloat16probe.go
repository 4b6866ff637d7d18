package mlperf

import (
	"context"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
)

// Probes of a convolution of one pixel with activations in bfloat16: what it computes shows
// how it reads its weights, and how it adds. Neither is a tensor in memory.

// probe is a sum of products, all of whose inputs and whose sum have few enough digits for
// bfloat16, and what it comes to with operands or sums of so many bits.
type probe struct {
	weights, inputs []float32
	comes           map[float32]int // bits, by the result
}

const probes = 128

// weightProbe is 128 times 1 + 2^-9 less 128: 1/4, or nothing if weights are rounded to
// bfloat16, whose numbers next to 1 are 2^-7 apart.
var weightProbe = probe{
	weights: append(repeatedFloat(1+0x1p-9, probes), repeatedFloat(1, probes)...),
	inputs:  append(repeatedFloat(1, probes), repeatedFloat(-1, probes)...),
	comes:   map[float32]int{0: 16, 0.25: 32},
}

// sumProbe adds 1 to 256 and takes 256 away again, 128 times over the channels: a sum that
// was kept in bfloat16 would lose the ones, as its numbers above 256 are 2 apart.
var sumProbe = probe{
	weights: repeatedFloat(1, probes+2),
	inputs:  append(append([]float32{256}, repeatedFloat(1, probes)...), -256),
	comes:   map[float32]int{0: 16, probes: 32},
}

func repeatedFloat(x float32, n int) []float32 {
	all := make([]float32, n)
	for i := range all {
		all[i] = x
	}
	return all
}

// probed is what a probe shows. One that comes to something else shows no bits.
func probed(p probe) foundBits {
	got, err := p.run()
	if bits, ok := p.comes[got]; ok && err == nil {
		return foundBits{Bits: []int{bits}, Of: len(p.inputs)}
	}
	return foundBits{}
}

// run runs the probe on a device of this machine.
func (p probe) run() (float32, error) {
	n := len(p.inputs)
	conv := nn.NewConv2D("probe", nn.Conv2DConfig{
		In: n, Out: 1, Kernel: [2]int{1, 1}, Init: func(_ *philox.Stream, _ graph.Shape, values []float32) { copy(values, p.weights) },
	})
	in := gpipe.Input{Examples: 1, Inputs: []graph.Type{{Shape: graph.Shape{1, 1, n}, DType: graph.F32}}}
	pipeline := gpipe.Pipeline{Layers: []nn.Layer{conv}, Loss: nn.CrossEntropy{}, Partitions: 1, MicroBatches: 1, Numerics: gpipe.Numerics{DType: graph.BF16}, Predicting: in}
	t, err := pipeline.Open(gpipe.Input{})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	out, err := t.Predict(context.Background(), nn.Tensor{Shape: []int{1, 1, 1, n}, F32: p.inputs})
	if err != nil {
		return 0, err
	}
	if len(out) != 1 || len(out[0].F32) != 1 {
		return 0, fmt.Errorf("a probe with %d outputs", len(out))
	}
	return out[0].F32[0], nil
}
