package gpipe

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// ownLayers is a network of the ops that an own layer would use, with an
// element-wise op, a general op and a loss of a caller.
func ownLayers() []nn.Layer {
	layer := func(name string, f func(t *nn.Trace, x *graph.Node) *graph.Node, params ...*nn.Param) nn.Layer {
		return nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node { return []*graph.Node{f(t, in[0])} }, params...)
	}
	slope := &nn.Param{Name: "slope", Shape: graph.Shape{4}, Init: nn.Zeros()} // no bit of its gradient is lost in a sum
	gain := &nn.Param{Name: "gain", Shape: graph.Shape{6}, Init: nn.Uniform(1)}
	return []nn.Layer{
		nn.NewDense("in", nn.DenseConfig{In: 5, Out: 24}),
		layer("rows", func(t *nn.Trace, x *graph.Node) *graph.Node { return t.Tanh(t.Reshape(x, 4, -1)) }),
		layer("weights", func(t *nn.Trace, x *graph.Node) *graph.Node { return t.Mul(t.Softmax(x), x) }),
		layer("columns", func(t *nn.Trace, x *graph.Node) *graph.Node {
			x = t.Transpose(x, 1, 2) // (n, 6, 4)
			return t.Add(x, t.Mul(x, t.Repeat(t.Repeat(t.Param(slope), 0, x.Shape[0]), 1, 6)))
		}, slope),
		layer("log", func(t *nn.Trace, x *graph.Node) *graph.Node { return t.Log(t.Shift(t.Exp(x), 0.5)) }),
		layer("centre", func(t *nn.Trace, x *graph.Node) *graph.Node {
			return t.Sub(t.Map(swish, x), t.Repeat(t.Mean(x, 2), 2, 4))
		}),
		layer("gain", func(t *nn.Trace, x *graph.Node) *graph.Node {
			return t.Compute(columnGain(), t.Transpose(x, 1, 2), t.Param(gain))[0]
		}, gain),
		layer("flat", func(t *nn.Trace, x *graph.Node) *graph.Node { return t.Sigmoid(t.Flatten(x)) }),
		nn.NewDense("out", nn.DenseConfig{In: 24, Out: 3, Activation: nn.Softplus}),
	}
}

var swish = graph.Elementwise{
	Name: "swish", FLOPs: 4,
	F: func(x float64) float64 { return x / (1 + math.Exp(-x)) },
	Derivative: func(x float64) float64 {
		s := 1 / (1 + math.Exp(-x))
		return s + x*s*(1-s)
	},
}

// columnGain multiplies the columns of x (n, ..., d) by w (d).
func columnGain() graph.Function {
	gain := graph.Function{
		Name: "column-gain", Promise: graph.PerExample,
		Types: func(in []graph.Type) ([]graph.Type, error) { return in[:1], nil },
		Run: func(out, in []graph.Tensor) {
			if in[0].Shape[0] < 1 || in[0].Shape.Elems() != len(in[0].F32) || in[1].Shape[0] != 6 {
				panic(fmt.Sprint("operands ", in[0].Shape, in[1].Shape)) // a thread without an example has no call
			}
			for i, x := range in[0].F32 {
				out[0].F32[i] = x * in[1].F32[i%len(in[1].F32)]
			}
		},
	}
	inputGrad := gain
	gain.Gradient = func(g *graph.Graph, in, _, dout []*graph.Node) []*graph.Node {
		weightGrad := graph.Function{
			Name: "column-gain-weight-grad", Promise: graph.PerExample, Accumulates: true,
			Types: func([]graph.Type) ([]graph.Type, error) {
				return []graph.Type{{Shape: in[1].Shape, DType: in[1].DType}}, nil
			},
			Run: func(out, in []graph.Tensor) {
				dw := out[0].F32
				for i, dy := range in[0].F32 {
					dw[i%len(dw)] += dy * in[1].F32[i]
				}
			},
		}
		return []*graph.Node{g.Compute(inputGrad, dout[0], in[1])[0], g.Compute(weightGrad, dout[0], in[0])[0]}
	}
	return gain
}

// focal is the focal loss with gamma 2 (Lin et al. 2017, equation 4).
type focal struct{}

func (focal) Loss(t *nn.Trace, out, targets []*graph.Node) []*graph.Node {
	p := t.Sum(t.Mul(t.Softmax(out[0]), t.OneHot(targets[0], out[0].Shape.Last())), 1)
	q := t.Shift(t.Scale(p, -1), 1)
	return []*graph.Node{t.EndLoss(t.Scale(t.Mul(t.Mul(q, q), t.Log(p)), -1))}
}

// ownData is the i-th mini-batch of 9 examples for ownLayers.
func ownData(i int) nn.Batch {
	b := nn.Batch{Inputs: []nn.Tensor{{Shape: []int{9, 5}}}, Targets: []nn.Tensor{{Shape: []int{9}}}, Count: 9}
	for j := range 45 {
		b.Inputs[0].F32 = append(b.Inputs[0].F32, float32(math.Sin(float64(7*j+i))))
	}
	for j := range 9 {
		b.Targets[0].I32 = append(b.Targets[0].I32, int32((j+i)%3))
	}
	return b
}

// TestG1OfOwnOps: guarantees G1 to G3 for layers, ops and a loss of a caller.
func TestG1OfOwnOps(t *testing.T) {
	p := Pipeline{Layers: ownLayers(), Loss: focal{}, Numerics: Numerics{Optimizer: nn.SGD{Momentum: 0.5}, LR: nn.ConstantLR(4)}}
	if d, err := p.Describe(InputOf(ownData(0))); err != nil || len(d.OutsideContract) > 0 {
		t.Fatalf("outside the contract: %v, %v", d, err)
	}
	checkG1(t, factors, 9, byVariant, func(t testing.TB, w way) outcome { return train(t, w.of(p), 3, ownData) })
}

// An op that promises nothing is listed, and the weights depend on M.
func TestOutsideTheContract(t *testing.T) {
	subtractFirst := graph.Function{
		Name:  "minus-first",
		Types: func(in []graph.Type) ([]graph.Type, error) { return in, nil },
		Run: func(out, in []graph.Tensor) {
			for i, x := range in[0].F32 {
				out[0].F32[i] = x - in[0].F32[0]
			}
		},
		Gradient: func(_ *graph.Graph, _, _, dout []*graph.Node) []*graph.Node { return dout },
	}
	p := Pipeline{Layers: ownLayers(), Loss: focal{}, Numerics: Numerics{Optimizer: nn.SGD{}, LR: nn.ConstantLR(0.1)}}
	p.Layers[2] = nn.Func("across", func(t *nn.Trace, in ...*graph.Node) []*graph.Node { return t.Compute(subtractFirst, in...) })
	d, err := p.Describe(InputOf(ownData(0)))
	if err != nil || fmt.Sprint(d.OutsideContract) != "[minus-first]" {
		t.Fatalf("outside the contract: %v, %v", d, err)
	}
	hashes := map[string]bool{}
	for _, m := range []int{1, 9} {
		p.MicroBatches = m
		hashes[train(t, p, 1, ownData).hash] = true
	}
	testkit.Equal(t, len(hashes), 2, "the weights do not depend on M: the test proves nothing")
}

// A label that is no class is named by its example.
func TestOneHotNamesTheLabel(t *testing.T) {
	p := Pipeline{Layers: ownLayers(), Loss: focal{}, Numerics: Numerics{Optimizer: nn.SGD{}, LR: nn.ConstantLR(0.1)}, Partitions: 2, MicroBatches: 3}
	tr := opened(t, p, InputOf(ownData(0)))
	b := ownData(0)
	b.Targets[0].I32[5] = 3
	testkit.Refused(tr.Step(t.Context(), b))(t, "example 5, position 0: target 3: want 0 to 2")
}

// Own operations are planned, costed and timed on modelled accelerators, also in
// bfloat16.
func TestOwnOpsAreModelled(t *testing.T) {
	a := must(accelerator.Named("tpuv3"))(t)
	p := Pipeline{Layers: ownLayers(), Loss: focal{}, Numerics: Numerics{Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.1)}, Partitions: 3, MicroBatches: 3, Devices: []Device{DeviceOf(a)}}
	for _, dtype := range []graph.DType{graph.F32, graph.BF16} {
		s, err := p.Simulate(InputOf(ownData(0)), Modelling{DType: dtype})
		if err != nil || s == nil {
			t.Errorf("%v: %v, %v", dtype, s, err)
		}
	}
	d := must(p.Describe(InputOf(ownData(0))))(t)
	for _, l := range d.Layers {
		want := int64(0)
		switch l.Name {
		case "centre":
			want = swish.FLOPs * 24
		case "in":
			want = 2 * 5 * 24
		case "out":
			want = 2 * 24 * 3
		}
		testkit.Equal(t, l.FLOPs, want, "layer %s: FLOPs", l.Name)
	}
}

// A panic in an operation of a caller ends the step with the name of its layer.
func TestPanicInOwnOp(t *testing.T) {
	p := Pipeline{Layers: ownLayers(), Loss: focal{}, Numerics: Numerics{Optimizer: nn.SGD{}, LR: nn.ConstantLR(0.1)}, Partitions: 3, MicroBatches: 3, Devices: []Device{{Threads: 2}}}
	broken := graph.Function{
		Name: "broken", Promise: graph.PerExample,
		Types:    func(in []graph.Type) ([]graph.Type, error) { return in, nil },
		Run:      func(out, in []graph.Tensor) { panic("no such table") },
		Gradient: func(_ *graph.Graph, _, _, dout []*graph.Node) []*graph.Node { return dout },
	}
	p.Layers[2] = nn.Func("lookup", func(t *nn.Trace, in ...*graph.Node) []*graph.Node { return t.Compute(broken, in...) })
	tr := opened(t, p, InputOf(ownData(0)))
	if _, err := tr.Step(t.Context(), ownData(0)); err == nil || !strings.HasSuffix(err.Error(), "F0: layer lookup: panic: no such table") {
		t.Errorf("%v, want the layer", err)
	}
}
