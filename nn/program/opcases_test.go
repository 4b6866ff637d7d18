package program_test

import (
	"math"

	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/philox"
)

// opCases covers every op that a layer can trace, and the fusions of the
// compiler. The sizes are not multiples of vectors and tiles.
var opCases = []opCase{
	{name: "matmul", trace: func(b *builder) []*graph.Node { return one(b.MatMul(b.x("x", 3, 5), b.w("w", 5, 37))) }},
	{name: "matmul-t", trace: func(b *builder) []*graph.Node { return one(b.MatMulT(b.x("x", 3, 5), b.w("w", 37, 5))) }},
	{name: "matmul/wide", trace: func(b *builder) []*graph.Node { return one(b.MatMul(b.x("x", 19), b.w("w", 19, 3))) }},
	{name: "matmul/tall", trace: func(b *builder) []*graph.Node { return one(b.MatMul(b.x("x", 11, 5), b.w("w", 5, 33))) }},
	{name: "matmul/no-parameter", whole: true, trace: func(b *builder) []*graph.Node {
		return one(b.MatMul(b.x("x", 3, 5), b.common("w", 5, 7)))
	}},
	{name: "bias", trace: func(b *builder) []*graph.Node { return one(b.AddBias(b.x("x", 2, 19), b.w("b", 19))) }},
	{name: "bias/no-parameter", whole: true, trace: func(b *builder) []*graph.Node {
		return one(b.AddBias(b.x("x", 2, 19), b.common("b", 19)))
	}},
	{name: "add", trace: func(b *builder) []*graph.Node { return one(b.Add(b.x("x", 7), b.x("y", 7))) }},
	{name: "mul", trace: func(b *builder) []*graph.Node { return one(b.Mul(b.x("x", 7), b.x("y", 7))) }},
	{name: "mul/square", trace: func(b *builder) []*graph.Node { x := b.x("x", 7); return one(b.Mul(x, x)) }},
	{name: "add/double", trace: func(b *builder) []*graph.Node { x := b.x("x", 7); return one(b.Add(x, x)) }},
	{name: "scale", trace: func(b *builder) []*graph.Node { return one(b.Scale(b.x("x", 7), -1.5)) }},
	{name: "relu", trace: func(b *builder) []*graph.Node { return one(b.ReLU(b.values("x", offKinks, 17))) }},
	{name: "gelu", trace: func(b *builder) []*graph.Node { return one(b.GELU(b.x("x", 17))) }},
	{name: "clip", trace: func(b *builder) []*graph.Node { return one(b.Clip(b.values("x", offKinks, 17), clipLimit)) }},
	{name: "dropout", trace: func(b *builder) []*graph.Node { return one(b.Dropout(b.x("x", 3, 7), 0.4, "a/drop")) }},
	{name: "layer-norm", trace: func(b *builder) []*graph.Node {
		return one(b.LayerNorm(b.x("x", 2, 19), b.w("gamma", 19), b.w("beta", 19), 1e-5))
	}},
	{name: "layer-norm/no-parameter", whole: true, trace: func(b *builder) []*graph.Node {
		return one(b.LayerNorm(b.x("x", 2, 19), b.common("gamma", 19), b.common("beta", 19), 1e-5))
	}},
	{name: "embed", trace: func(b *builder) []*graph.Node {
		return one(b.Embed(b.w("table", 5, 19), b.ids("ids", 0, 4, 3), b.constant("positions", 4, 19), 1.5))
	}},
	{name: "embed/no-parameter", whole: true, trace: func(b *builder) []*graph.Node {
		return one(b.Embed(b.common("table", 5, 19), b.ids("ids", 0, 4, 3), b.constant("positions", 4, 19), 1.5))
	}},
	attend(false, false, false), attend(false, true, false), attend(false, false, true), attend(false, true, true),
	attend(true, false, false), attend(true, true, false), attend(true, false, true), attend(true, true, true),
	grouped(1, false, false), grouped(2, true, false), grouped(2, false, true), grouped(4, true, true),
	{name: "attention/grouped/large", exact: true, trace: func(b *builder) []*graph.Node {
		o := op.Attention{Heads: 6, HeadDim: 20, KVHeads: 2, Causal: true}
		return one(b.Attention(o, b.x("q", 70, 120), b.x("k", 70, 40), b.x("v", 70, 40)))
	}},
	{name: "rotary", trace: func(b *builder) []*graph.Node {
		return one(b.Rotary(b.x("x", 3, 12), b.constant("angles", 5, 6), 6))
	}},
	{name: "swiglu", trace: func(b *builder) []*graph.Node { return one(b.SwiGLU(b.x("x", 3, 19), b.x("u", 3, 19))) }},
	{name: "swiglu/square", trace: func(b *builder) []*graph.Node { x := b.x("x", 19); return one(b.SwiGLU(x, x)) }},
	{name: "rms-norm", trace: func(b *builder) []*graph.Node {
		return one(b.RMSNorm(b.x("x", 2, 19), b.w("gamma", 19), 1e-5))
	}},
	{name: "rms-norm/no-parameter", whole: true, trace: func(b *builder) []*graph.Node {
		return one(b.RMSNorm(b.x("x", 2, 19), b.common("gamma", 19), 1e-5))
	}},
	{name: "embed/no positions", trace: func(b *builder) []*graph.Node {
		return one(b.Embed(b.w("table", 5, 19), b.ids("ids", 0, 4, 3), nil, 1))
	}},
	{name: "additive-attention", trace: func(b *builder) []*graph.Node {
		return one(b.AdditiveAttention(b.x("q", 3, 5), b.x("k", 4, 5), b.x("u", 5), b.x("v", 4, 2), nil))
	}},
	{name: "additive-attention/padded", trace: func(b *builder) []*graph.Node {
		return one(b.AdditiveAttention(b.x("q", 3, 5), b.x("k", 4, 5), b.x("u", 5), b.x("v", 4, 2), b.ids("lengths", 0, 4)))
	}},
	{name: "additive-attention/large", exact: true, trace: func(b *builder) []*graph.Node {
		return one(b.AdditiveAttention(b.x("q", 17, 35), b.x("k", 33, 35), b.x("u", 35), b.x("v", 33, 41), b.ids("lengths", 0, 33)))
	}},
	scanned(false, false, false), scanned(true, false, false), scanned(false, true, false), scanned(true, true, false),
	scanned(false, false, true), scanned(true, false, true), scanned(false, true, true), scanned(true, true, true),
	{name: "lstm/large", exact: true, trace: func(b *builder) []*graph.Node {
		return one(b.LSTM(b.x("z", 21, 4*70), b.w("w", 70, 4*70), b.ids("lengths", 0, 21), true))
	}},
	{name: "lstm/no-parameter", whole: true, trace: func(b *builder) []*graph.Node {
		return one(b.LSTM(b.x("z", 4, 12), b.common("w", 3, 12), nil, false))
	}},
	{name: "lstm-inside/no-parameter", whole: true, trace: func(b *builder) []*graph.Node {
		return one(b.LSTMInside(b.x("x", 4, 2), b.common("wx", 2, 12), b.common("bias", 12), b.common("w", 3, 12), nil, false))
	}},
	{name: "lstm/both directions", trace: func(b *builder) []*graph.Node {
		x, lengths := b.x("x", 4, 3), b.ids("lengths", 1, 4)
		way := func(name string, reverse bool) *graph.Node {
			z := b.AddBias(b.MatMul(x, b.w("wx"+name, 3, 12)), b.w("bias"+name, 12))
			return b.LSTM(z, b.w("w"+name, 3, 12), lengths, reverse)
		}
		return one(b.Concat(way("1", false), way("2", true)))
	}},
	{name: "cross-entropy", loss: true, trace: func(b *builder) []*graph.Node {
		loss, correct := b.CrossEntropy(b.x("x", 3, 19), b.targets(19, 3), 0)
		return []*graph.Node{loss, correct}
	}},
	{name: "cross-entropy/smoothed", loss: true, trace: func(b *builder) []*graph.Node {
		loss, correct := b.CrossEntropy(b.x("x", 3, 19), b.targets(19, 3), 0.1)
		return []*graph.Node{loss, correct}
	}},
	{name: "cross-entropy/ranks", loss: true, trace: func(b *builder) []*graph.Node {
		loss, correct, ranks := b.CrossEntropyRanks(b.x("x", 3, 19), b.targets(19, 3), 0.1)
		return []*graph.Node{loss, correct, ranks}
	}},

	{name: "sub", trace: func(b *builder) []*graph.Node { return one(b.Sub(b.x("x", 7), b.x("y", 7))) }},
	{name: "shift", trace: func(b *builder) []*graph.Node { return one(b.Shift(b.x("x", 7), -1.5)) }},
	{name: "exp", trace: func(b *builder) []*graph.Node { return one(b.Exp(b.Scale(b.x("x", 19), 0.5))) }},
	{name: "log", trace: func(b *builder) []*graph.Node { return one(b.Log(b.values("x", aboveOne, 19))) }},
	{name: "sigmoid", trace: func(b *builder) []*graph.Node { return one(b.Sigmoid(b.x("x", 19))) }},
	{name: "tanh", trace: func(b *builder) []*graph.Node { return one(b.Tanh(b.x("x", 19))) }},
	{name: "softmax", trace: func(b *builder) []*graph.Node { return one(b.Softmax(b.x("x", 3, 19))) }},
	{name: "div", trace: func(b *builder) []*graph.Node { return one(b.Div(b.x("x", 19), b.values("y", aboveOne, 19))) }},
	{name: "div/by itself", trace: func(b *builder) []*graph.Node { x := b.values("x", aboveOne, 19); return one(b.Div(x, x)) }},
	{name: "sqrt", trace: func(b *builder) []*graph.Node { return one(b.Sqrt(b.values("x", aboveOne, 19))) }},
	{name: "max/last axis", trace: func(b *builder) []*graph.Node { return one(b.Max(b.values("x", apart, 3, 19), 2)) }},
	{name: "max/middle axis", trace: func(b *builder) []*graph.Node { return one(b.Max(b.values("x", apart, 3, 4, 19), 2)) }},
	{name: "gather", trace: func(b *builder) []*graph.Node { return one(b.Gather(b.x("x", 3, 5), b.ids("rows", 0, 2, 7))) }},
	{name: "gather/numbers", trace: func(b *builder) []*graph.Node { return one(b.Gather(b.x("x", 5), b.ids("rows", 0, 4, 2))) }},
	{name: "batch-matmul", trace: func(b *builder) []*graph.Node { return one(b.BatchMatMul(b.x("x", 2, 3, 5), b.x("y", 2, 5, 4))) }},
	{name: "batch-matmul-t", trace: func(b *builder) []*graph.Node { return one(b.BatchMatMulT(b.x("x", 3, 5), b.x("y", 4, 5))) }},
	{name: "batch-matmul/by itself", trace: func(b *builder) []*graph.Node { x := b.x("x", 3, 5); return one(b.BatchMatMulT(x, x)) }},
	{name: "batch-matmul/large", exact: true, trace: func(b *builder) []*graph.Node {
		return one(b.BatchMatMul(b.x("x", 37, 300), b.x("y", 300, 65)))
	}},
	{name: "sum/last axis", trace: func(b *builder) []*graph.Node { return one(b.Sum(b.x("x", 3, 19), 2)) }},
	{name: "sum/middle axis", trace: func(b *builder) []*graph.Node { return one(b.Sum(b.x("x", 3, 4, 19), 1)) }},
	{name: "sum/of each example", trace: func(b *builder) []*graph.Node { return one(b.Sum(b.x("x", 3, 4, 5))) }},
	{name: "sum/axes apart", trace: func(b *builder) []*graph.Node { return one(b.Sum(b.x("x", 3, 4, 5, 2), 3, 1, 4)) }},
	{name: "mean", trace: func(b *builder) []*graph.Node { return one(b.Mean(b.x("x", 3, 5, 19), 1, 2)) }},
	{name: "repeat", trace: func(b *builder) []*graph.Node { return one(b.Repeat(b.x("x", 3, 7), 2, 5)) }},
	{name: "repeat/last", trace: func(b *builder) []*graph.Node { return one(b.Repeat(b.x("x", 3, 7), 3, 5)) }},
	{name: "repeat/parameter", trace: func(b *builder) []*graph.Node {
		x := b.GELU(b.x("x", 3, 17)) // sums of rounded numbers are not exact
		return one(b.Mul(x, b.Repeat(b.Repeat(b.w("w", 17), 0, x.Shape[0]), 1, 3)))
	}},
	{name: "repeat/constant", trace: func(b *builder) []*graph.Node {
		x := b.x("x", 3, 5)
		return one(b.Sub(x, b.Repeat(b.constant("c", 3, 5), 0, x.Shape[0])))
	}},
	{name: "reshape", trace: func(b *builder) []*graph.Node {
		return one(b.Tanh(b.Reshape(b.Scale(b.x("x", 3, 4, 5), 0.5), 2, -1)))
	}},
	{name: "reshape/input to output", trace: func(b *builder) []*graph.Node { return one(b.Reshape(b.x("x", 3, 4), 4, 3)) }},
	{name: "reshape/of a residual", trace: func(b *builder) []*graph.Node {
		h := b.Sigmoid(b.x("x", 3, 4))
		return one(b.MatMul(b.Flatten(h), b.w("w", 12, 5)))
	}},
	{name: "transpose", trace: func(b *builder) []*graph.Node { return one(b.Transpose(b.x("x", 3, 5), 1, 2)) }},
	{name: "transpose/apart", trace: func(b *builder) []*graph.Node { return one(b.Transpose(b.x("x", 3, 2, 5, 4), 3, 1)) }},
	{name: "end-loss/squares", loss: true, trace: func(b *builder) []*graph.Node {
		d := b.Sub(b.MatMul(b.x("x", 5), b.w("w", 5, 3)), b.x("y", 3))
		return one(b.EndLoss(b.Mean(b.Mul(d, d))))
	}},
	{name: "end-loss/focal", loss: true, trace: func(b *builder) []*graph.Node {
		p := b.Sum(b.Mul(b.Softmax(b.x("x", 3, 19)), b.OneHot(b.targets(19, 3), 19)), 2)
		p = b.Shift(p, 0.125) // the masked have a logarithm, too
		q := b.Shift(b.Scale(p, -1), 1)
		return one(b.EndLoss(b.Scale(b.Mul(b.Mul(q, q), b.Log(p)), -1)))
	}},
	{name: "end-loss/in place of nothing", loss: true, trace: func(b *builder) []*graph.Node { return one(b.EndLoss(b.x("x", 3))) }},

	{name: "elementwise", trace: func(b *builder) []*graph.Node {
		return one(b.Map(softplus, b.Map(softplus, b.x("x", 3, 19))))
	}},
	{name: "function", trace: func(b *builder) []*graph.Node {
		return b.Compute(rowScale(), b.GELU(b.x("x", 3, 5)), b.w("w", 5))
	}},
	{name: "function/without a promise", whole: true, trace: func(b *builder) []*graph.Node {
		return b.Compute(centred(), b.x("x", 5))
	}},

	conv("1x1", 5, 19, 1, 1, op.Window{SH: 1, SW: 1}),
	conv("3x3", 3, 5, 3, 3, op.Window{SH: 1, SW: 1}.Padded(1)),
	conv("3x3/stride 2", 4, 17, 3, 3, op.Window{KH: 3, KW: 3, SH: 2, SW: 2}.Same(5, 6)),
	conv("1x7", 3, 4, 1, 7, op.Window{KH: 1, KW: 7, SH: 1, SW: 1}.Same(5, 6)),
	conv("7x1", 3, 4, 7, 1, op.Window{KH: 7, KW: 1, SH: 1, SW: 2}.Same(5, 6)),
	conv("2x3/asymmetric", 2, 3, 2, 3, op.Window{SH: 2, SW: 1, Top: 1, Right: 2}),
	conv("1x1/shifted", 3, 4, 1, 1, op.Window{SH: 2, SW: 2, Top: -1, Bottom: 1, Left: -1, Right: 1}),
	{name: "conv2d/no-parameter", whole: true, trace: func(b *builder) []*graph.Node {
		return one(b.Conv2D(b.x("x", 4, 4, 3), b.common("w", 3, 3, 3, 2), op.Square(3, 1)))
	}},
	depthwise("3x3", 5, 3, 3, op.Window{SH: 1, SW: 1}.Padded(1), 1),
	depthwise("3x3/many channels", 35, 3, 3, op.Window{SH: 1, SW: 1}.Padded(1), 1),
	depthwise("3x3/valid", 3, 3, 3, op.Square(3, 1), 1),
	depthwise("3x3/stride 2", 17, 3, 3, op.Window{KH: 3, KW: 3, SH: 2, SW: 2}.Same(5, 6), 1),
	depthwise("5x5/dilated", 3, 5, 5, op.Window{KH: 9, KW: 9, SH: 1, SW: 1}.Same(5, 6), 2),
	depthwise("2x3/dilated with strides", 4, 2, 3, op.Window{KH: 4, KW: 7, SH: 2, SW: 2}.Same(5, 6), 3),
	depthwise("1x7", 3, 1, 7, op.Window{KH: 1, KW: 7, SH: 1, SW: 2}.Same(5, 6), 1),
	depthwise("2x2/shifted", 3, 2, 2, op.Window{SH: 3, SW: 2, Top: -1, Bottom: 1, Left: -1, Right: 2}, 1),
	{name: "depthwise/no-parameter", whole: true, trace: func(b *builder) []*graph.Node {
		return one(b.Depthwise(b.x("x", 4, 4, 3), b.common("w", 3, 3, 3), op.Square(3, 1), 1))
	}},
	{name: "max-pool", trace: func(b *builder) []*graph.Node {
		return one(b.MaxPool(b.values("x", apart, 5, 6, 3), op.Square(3, 2).Same(5, 6)))
	}},
	{name: "max-pool/overlapping", trace: func(b *builder) []*graph.Node {
		return one(b.MaxPool(b.values("x", apart, 4, 4, 17), op.Square(3, 1).Same(4, 4)))
	}},
	{name: "max-pool/ties", exact: true, trace: func(b *builder) []*graph.Node {
		return one(b.MaxPool(b.ReLU(b.x("x", 5, 6, 3)), op.Square(2, 2).Same(5, 6)))
	}},
	{name: "avg-pool", trace: func(b *builder) []*graph.Node {
		return one(b.AvgPool(b.x("x", 5, 6, 3), op.Square(3, 2).Same(5, 6)))
	}},
	{name: "avg-pool/overlapping", trace: func(b *builder) []*graph.Node {
		return one(b.AvgPool(b.x("x", 4, 5, 17), op.Square(3, 1).Same(4, 5)))
	}},
	{name: "global-avg-pool", trace: func(b *builder) []*graph.Node { return one(b.GlobalAvgPool(b.x("x", 3, 5, 19))) }},
	{name: "concat", trace: func(b *builder) []*graph.Node {
		x := b.x("x", 2, 3, 5)
		return one(b.Concat(x, b.x("y", 2, 3, 17), b.GELU(x)))
	}},
	{name: "slice", trace: func(b *builder) []*graph.Node { return one(b.Slice(b.x("x", 3, 19), 2, 9)) }},
	{name: "pad", trace: func(b *builder) []*graph.Node { return one(b.Pad(b.x("x", 3, 5), 2, 9)) }},
	{name: "drop-path", trace: func(b *builder) []*graph.Node { return one(b.DropPath(b.x("x", 3, 7), 0.4, 0, "a/path")) }},
	{name: "drop-path/rising", trace: func(b *builder) []*graph.Node { return one(b.DropPath(b.x("x", 3, 7), 0.8, 2, "a/path")) }},
	norm("batch-norm", func(b *builder, x *graph.Node) *graph.Node { return normed(b, x, "", false) }),
	norm("batch-norm/over replicas", func(b *builder, x *graph.Node) *graph.Node {
		b.OverReplicas = true
		return normed(b, x, "", false)
	}),
	norm("batch-norm/relu", func(b *builder, x *graph.Node) *graph.Node {
		y := normed(b, x, "", true)
		b.fill["beta"] = farFromZero // no kink within the step of the finite differences
		return y
	}),
	{name: "batch-norm/many rows", whole: true, exact: true, trace: func(b *builder) []*graph.Node {
		return one(normed(b, b.x("x", 13, 11, 35), "", true))
	}},
	{name: "batch-norm-eval", trace: func(b *builder) []*graph.Node {
		x := b.x("x", 3, 2, 19)
		v := b.constant("variance", 19)
		b.fill["variance"] = func(r *philox.Stream) float64 { return 1 + math.Abs(normal(r)) }
		return one(b.BatchNormEval(x, b.constant("mean", 19), v, b.constant("gamma", 19), b.constant("beta", 19), 1e-3, true))
	}, absent: []int{0}},

	// Fusions of the compiler.
	norm("fused/batch-norm+add+relu", func(b *builder, x *graph.Node) *graph.Node {
		return b.ReLU(b.Add(normed(b, x, "", false), b.x("shortcut", x.Shape[1:]...)))
	}),
	norm("fused/batch-norm+add", func(b *builder, x *graph.Node) *graph.Node {
		return b.Add(b.x("shortcut", x.Shape[1:]...), normed(b, x, "", false))
	}),
	{name: "fused/batch-norm-grad+add", whole: true, fma: true, trace: func(b *builder) []*graph.Node {
		x := b.x("x", 3, 2, 19)
		return one(b.Mul(normed(b, x, "1", false), normed(b, x, "2", false)))
	}, exact: true},
	{name: "fused/add+relu", exact: true, trace: func(b *builder) []*graph.Node {
		return one(b.ReLU(b.Add(b.x("x", 19), b.x("y", 19))))
	}},
	{name: "fused/matmul+bias", trace: func(b *builder) []*graph.Node {
		return one(b.AddBias(b.MatMul(b.x("x", 3, 5), b.w("w", 5, 37)), b.w("b", 37)))
	}},
	{name: "fused/matmul+bias+gelu", trace: func(b *builder) []*graph.Node {
		return one(b.GELU(b.AddBias(b.MatMulT(b.x("x", 3, 5), b.w("w", 37, 5)), b.w("b", 37))))
	}},
	{name: "fused/matmul+bias+gelu+matmul+bias", trace: func(b *builder) []*graph.Node {
		h := b.GELU(b.AddBias(b.MatMul(b.x("x", 3, 5), b.w("w1", 5, 37)), b.w("b1", 37)))
		return one(b.AddBias(b.MatMul(h, b.w("w2", 37, 5)), b.w("b2", 5)))
	}},
	{name: "fused/matmul+bias+relu", exact: true, trace: func(b *builder) []*graph.Node {
		return one(b.ReLU(b.AddBias(b.MatMul(b.x("x", 3, 5), b.w("w", 5, 37)), b.w("b", 37))))
	}},
	{name: "fused/dropout+add", trace: func(b *builder) []*graph.Node {
		x := b.x("x", 19)
		return one(b.Add(x, b.Dropout(b.Scale(x, 0.5), 0.3, "a/drop")))
	}},
	{name: "fused/dropout+itself", trace: func(b *builder) []*graph.Node {
		x := b.x("x", 19)
		return one(b.Add(b.Dropout(x, 0.3, "a/drop"), x))
	}},
	{name: "fused/dropout+dropout", trace: func(b *builder) []*graph.Node {
		x, y := b.x("x", 19), b.x("y", 19)
		return one(b.Add(b.Dropout(x, 0.3, "a/drop1"), b.Dropout(y, 0.3, "a/drop2")))
	}},
	{name: "fused/layer-norm-grad+add", trace: func(b *builder) []*graph.Node {
		x := b.x("x", 19)
		return one(b.Add(x, b.LayerNorm(x, b.w("gamma", 19), b.w("beta", 19), 1e-5)))
	}},
	{name: "fused/two layer-norm-grads+add", fma: true, trace: func(b *builder) []*graph.Node {
		x := b.x("x", 19)
		n1 := b.LayerNorm(x, b.w("gamma1", 19), b.w("beta1", 19), 1e-5)
		n2 := b.LayerNorm(x, b.w("gamma2", 19), b.w("beta2", 19), 1e-5)
		return one(b.Mul(n1, n2))
	}},

	// Values with several consumers, outputs that are inputs, absent gradients.
	{name: "consumers/three", trace: func(b *builder) []*graph.Node {
		x := b.x("x", 7)
		return one(b.Add(b.Mul(x, b.GELU(x)), b.Scale(x, 3)))
	}},
	{name: "consumers/parameter used twice", trace: func(b *builder) []*graph.Node {
		w := b.w("w", 7, 7)
		return one(b.MatMul(b.GELU(b.MatMul(b.x("x", 7), w)), w))
	}},
	{name: "consumers/tied", trace: func(b *builder) []*graph.Node {
		table := b.w("table", 5, 19)
		return one(b.MatMulT(b.GELU(b.Embed(table, b.ids("ids", 0, 4, 3), b.constant("positions", 4, 19), 1)), table))
	}},
	{name: "outputs/handed on", trace: func(b *builder) []*graph.Node {
		x := b.x("x", 7)
		return []*graph.Node{x, b.GELU(x)}
	}},
	{name: "outputs/nothing but handed on", trace: func(b *builder) []*graph.Node { return one(b.x("x", 7)) }},
	{name: "outputs/integers handed on", trace: func(b *builder) []*graph.Node {
		return []*graph.Node{b.GELU(b.x("x", 7)), b.ids("ids", 0, 9, 3)}
	}},
	{name: "outputs/swapped", trace: func(b *builder) []*graph.Node {
		x, y := b.x("x", 7), b.x("y", 7)
		return []*graph.Node{y, x}
	}},
	{name: "outputs/twice", trace: func(b *builder) []*graph.Node {
		y := b.GELU(b.x("x", 7))
		return []*graph.Node{y, y}
	}},
	{name: "outputs/residual", trace: func(b *builder) []*graph.Node {
		h := b.Scale(b.x("x", 7), 0.5) // GELU's gradient reads h, which is an output as well
		return []*graph.Node{h, b.GELU(h)}
	}},
	{name: "outputs/no gradient", absent: []int{1}, trace: func(b *builder) []*graph.Node {
		x := b.x("x", 7)
		return []*graph.Node{b.GELU(x), b.Scale(x, 2)}
	}},
	{name: "outputs/no gradient at all", absent: []int{0}, trace: func(b *builder) []*graph.Node {
		return one(b.MatMul(b.x("x", 7), b.w("w", 7, 3)))
	}},
	{name: "inputs/unused", trace: func(b *builder) []*graph.Node {
		b.x("y", 7)
		return one(b.GELU(b.x("x", 7)))
	}},

	// Chains of operations in place.
	{name: "in-place/chain", trace: func(b *builder) []*graph.Node {
		h := b.AddBias(b.Scale(b.x("x", 19), 2), b.w("b", 19))
		return one(b.Scale(b.GELU(b.Dropout(b.LayerNorm(h, b.w("gamma", 19), b.w("beta", 19), 1e-5), 0.2, "a/drop")), 0.5))
	}},
	{name: "in-place/residual overwritten", trace: func(b *builder) []*graph.Node {
		h := b.Scale(b.x("x", 19), 0.5)
		return one(b.Mul(b.GELU(h), b.GELU(b.Scale(h, 2))))
	}},
	{name: "in-place/residual of a product", trace: func(b *builder) []*graph.Node {
		h := b.Scale(b.x("x", 19), 0.5) // the gradient of GELU may overwrite it, but not if the weight's comes later
		return []*graph.Node{b.GELU(h), b.MatMul(h, b.w("w", 19, 19))}
	}},
	{name: "in-place/loss", loss: true, trace: func(b *builder) []*graph.Node {
		logits := b.Scale(b.MatMul(b.x("x", 3, 5), b.w("w", 5, 19)), 0.5)
		loss, correct := b.CrossEntropy(logits, b.targets(19, 3), 0.1)
		return []*graph.Node{loss, correct}
	}},
	{name: "llama block", trace: func(b *builder) []*graph.Node { return one(llamaLayer(b, 5, 2, 11)) }},
	{name: "llama block/large", exact: true, trace: func(b *builder) []*graph.Node { return one(llamaLayer(b, 80, 12, 130)) }},
	{name: "block", trace: func(b *builder) []*graph.Node { return one(transformerLayer(b, 5, 3, 11)) }},
	// Gradients of weights with more rows than a cache block of the product.
	{name: "block/large", exact: true, trace: func(b *builder) []*graph.Node { return one(transformerLayer(b, 80, 24, 130)) }},
}

// transformerLayer has two heads, and a sequence of the given length.
func transformerLayer(b *builder, time, headDim, hidden int) *graph.Node {
	dim := 2 * headDim
	x := b.x("x", time, dim)
	h := b.LayerNorm(x, b.w("gamma1", dim), b.w("beta1", dim), 1e-5)
	h = b.AddBias(b.MatMul(h, b.w("qkv", dim, 3*dim)), b.w("qkv-bias", 3*dim))
	h = b.Attention(op.Attention{Heads: 2, HeadDim: headDim, Causal: true}, h)
	h = b.AddBias(b.MatMul(h, b.w("out", dim, dim)), b.w("out-bias", dim))
	x = b.Add(x, b.Dropout(h, 0.2, "a/drop1"))
	h = b.LayerNorm(x, b.w("gamma2", dim), b.w("beta2", dim), 1e-5)
	h = b.GELU(b.AddBias(b.MatMul(h, b.w("in", dim, hidden)), b.w("in-bias", hidden)))
	h = b.AddBias(b.MatMul(h, b.w("back", hidden, dim)), b.w("back-bias", dim))
	return b.Add(x, b.Dropout(h, 0.2, "a/drop2"))
}

// llamaLayer has four heads of queries, two of keys, and a sequence of the given length.
func llamaLayer(b *builder, time, headDim, hidden int) *graph.Node {
	dim, angles := 4*headDim, b.constant("angles", time, headDim)
	x := b.x("x", time, dim)
	h := b.RMSNorm(x, b.w("gamma1", dim), 1e-5)
	q, k := b.MatMulT(h, b.w("q", dim, dim)), b.MatMulT(h, b.w("k", dim/2, dim))
	v := b.MatMulT(h, b.w("v", dim/2, dim))
	o := op.Attention{Heads: 4, HeadDim: headDim, KVHeads: 2, Causal: true}
	h = b.Attention(o, b.Rotary(q, angles, headDim), b.Rotary(k, angles, headDim), v)
	x = b.Add(x, b.MatMulT(h, b.w("out", dim, dim)))
	h = b.RMSNorm(x, b.w("gamma2", dim), 1e-5)
	h = b.SwiGLU(b.MatMulT(h, b.w("gate", hidden, dim)), b.MatMulT(h, b.w("up", hidden, dim)))
	return b.Add(x, b.MatMulT(h, b.w("down", dim, hidden)))
}
