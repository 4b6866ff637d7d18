package program_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gpipebench/internal/kernel"
	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
)

// TestBlocksAreWhole: converting by blocks gives the bits of converting whole operands,
// forward and backward, for every op.
func TestBlocksAreWhole(t *testing.T) {
	testkit.NotRaced(t)
	cases := opCases
	if !testing.Short() {
		cases = slices.Concat(cases, largeCases)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.storage = program.BF16
			r := c.runner(t, 0, miniBatch, 1)
			r.Stage.Keep, r.Stage.Backward = r.Stage.Keep.Whole(), r.Stage.Backward.Whole()
			want := programtest.Results{}
			want.Step(r, 0)
			for _, threads := range []int{1, 3} {
				got := programtest.Results{}
				got.Step(c.runner(t, 0, miniBatch, threads), 0)
				want.Same(t, got, fmt.Sprint("by blocks on ", threads, " threads"))
			}
		})
	}
}

// largeCases have operands of several blocks in every direction, and sizes that are no
// multiples of them.
var largeCases = []opCase{
	{name: "large/matmul", trace: func(b *builder) []*graph.Node {
		return one(b.MatMul(b.x("x", 45, 521), b.w("w", 521, 519)))
	}},
	{name: "large/matmul-bt", trace: func(b *builder) []*graph.Node {
		return one(b.MatMulT(b.x("x", 45, 260), b.w("w", 777, 260)))
	}},
	{name: "large/attention", trace: func(b *builder) []*graph.Node {
		return one(b.Attention(op.Attention{Heads: 2, HeadDim: 17, Causal: true}, b.x("qkv", 301, 2*3*17)))
	}},
	{name: "large/attention grouped", trace: func(b *builder) []*graph.Node {
		o := op.Attention{Heads: 6, HeadDim: 18, KVHeads: 2, Causal: true}
		angles := b.constant("angles", 301, 18)
		return one(b.Attention(o, b.Rotary(b.x("q", 301, 6*18), angles, 18), b.Rotary(b.x("k", 301, 2*18), angles, 18), b.x("v", 301, 2*18)))
	}},
	{name: "large/gated rows", trace: func(b *builder) []*graph.Node {
		x := b.RMSNorm(b.x("x", 41, 1031), b.w("gamma", 1031), 1e-5)
		return one(b.SwiGLU(x, b.x("u", 41, 1031)))
	}},
	{name: "large/rows", trace: func(b *builder) []*graph.Node {
		x := b.LayerNorm(b.x("x", 41, 1031), b.w("gamma", 1031), b.w("beta", 1031), 1e-5)
		x = b.GELU(b.AddBias(x, b.w("bias", 1031)))
		return one(b.Dropout(b.Mul(x, b.Softmax(x)), 0.3, "path"))
	}},
	{name: "large/batch-norm", whole: true, trace: func(b *builder) []*graph.Node {
		y, _ := b.BatchNorm(b.x("x", 7, 9, 131), b.w("gamma", 131), b.w("beta", 131), 1e-3, true)
		return one(b.GlobalAvgPool(y))
	}},
	imagesCase("large/conv-3x3", func(b *builder, x *graph.Node) *graph.Node {
		return b.Conv2D(x, b.w("w", 3, 3, 40, 70), op.Square(3, 1).Same(37, 31))
	}),
	imagesCase("large/conv-5x3-strided", func(b *builder, x *graph.Node) *graph.Node {
		return b.Conv2D(x, b.w("w", 5, 3, 40, 33), op.Window{KH: 5, KW: 3, SH: 3, SW: 2, Top: 2, Left: 1, Bottom: 1, Right: 0})
	}),
	imagesCase("large/conv-crop", func(b *builder, x *graph.Node) *graph.Node {
		return b.Conv2D(x, b.w("w", 1, 1, 40, 36), op.Window{KH: 1, KW: 1, SH: 2, SW: 2, Top: -1, Left: -1, Bottom: 1, Right: 1})
	}),
	imagesCase("large/conv-1x1", func(b *builder, x *graph.Node) *graph.Node {
		return b.Conv2D(x, b.w("w", 1, 1, 40, 130), op.Square(1, 1))
	}),
	imagesCase("large/depthwise", func(b *builder, x *graph.Node) *graph.Node {
		return b.Depthwise(x, b.w("w", 5, 5, 40), op.Window{KH: 5, KW: 5, SH: 2, SW: 1, Top: 4, Left: 4, Bottom: 4, Right: 4}, 2)
	}),
	imagesCase("large/max-pool", func(b *builder, x *graph.Node) *graph.Node {
		return b.MaxPool(x, op.Square(3, 2).Same(37, 31))
	}),
	imagesCase("large/max-pool-1", func(b *builder, x *graph.Node) *graph.Node {
		return b.MaxPool(x, op.Square(3, 1).Same(37, 31))
	}),
	imagesCase("large/avg-pool", func(b *builder, x *graph.Node) *graph.Node {
		return b.AvgPool(x, op.Square(3, 1).Same(37, 31))
	}),
}

// imagesCase is an op on images of 37 x 31 pixels of 40 channels.
func imagesCase(name string, op func(b *builder, x *graph.Node) *graph.Node) opCase {
	return opCase{name: name, trace: func(b *builder) []*graph.Node { return one(op(b, b.x("x", 37, 31, 40))) }}
}

// TestRoundedOnce: an op in bfloat16 is the op in float32 on rounded inputs (and rounded
// weights, of a product), with its result rounded.
func TestRoundedOnce(t *testing.T) {
	for _, c := range opCases {
		b := c.traced(miniBatch)
		if len(b.Calls) != 1 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.storage = program.BF16
			r := c.runner(t, 0, miniBatch, 1)
			r.Forward()
			c.storage = program.Storage{}
			f := c.runner(t, 0, miniBatch, 1)
			for i, n := range f.Function.In {
				if n.DType == graph.F32 {
					kernel.RoundBF16(f.In(i), f.In(i))
				}
			}
			switch b.Calls[0].Op.(type) {
			case op.MatMul, op.Conv2D, op.Depthwise, op.LSTM:
				for _, p := range f.Function.Params {
					kernel.RoundBF16(f.Param(p.Name), f.Param(p.Name))
				}
			}
			f.Forward()
			for i := range r.Stage.Out {
				got, want := r.Out(i), f.Out(i)
				if r.Stage.Out[i].DType == graph.BF16 {
					kernel.RoundBF16(want, want)
				}
				for j := range want {
					if math.Float32bits(got[j]) != math.Float32bits(want[j]) {
						t.Fatalf("output %d, element %d: %v, want %v", i, j, got[j], want[j])
					}
				}
			}
		})
	}
}
