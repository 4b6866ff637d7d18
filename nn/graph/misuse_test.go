package graph_test

import (
	"errors"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// refused returns the message with which f refuses its inputs.
func refused(t *testing.T, f func()) (message string) {
	t.Helper()
	defer func() {
		err, _ := recover().(error)
		var misuse *graph.Misuse
		if !errors.As(err, &misuse) {
			t.Fatalf("%v instead of a misuse", err)
		}
		message = misuse.Error()
	}()
	f()
	return ""
}

// Ops of examples name the axis or the value that does not fit, and what would.
func TestOpsOfExamplesAreRefused(t *testing.T) {
	g := &graph.Graph{}
	x := g.NewNode(graph.Input, "x", graph.F32, 2, 3, 4)
	w := g.NewNode(graph.Param, "w", graph.F32, 3, 4)
	ids := g.NewNode(graph.Input, "ids", graph.I32, 2)
	for want, f := range map[string]func(){
		"sum: axis 0 of x f32(2,3,4), want 1 to 2":                      func() { g.Sum(x, 0) },
		"sum: axis 3 of x f32(2,3,4), want 1 to 2":                      func() { g.Sum(x, 1, 3) },
		"sum: axis 2 is there twice":                                    func() { g.Sum(x, 2, 1, 2) },
		"mean: axis -1 of":                                              func() { g.Mean(x, -1) },
		"sum: w f32(3,4) has no examples: want Repeat":                  func() { g.Sum(w, 1) },
		"sum: input ids i32(2) is not floating point":                   func() { g.Sum(ids) },
		"repeat: axis 0 counts the examples: x f32(2,3,4) is neither":   func() { g.Repeat(x, 0, 2) },
		"repeat: parameter w f32(3,4) has no examples":                  func() { g.Repeat(w, 1, 2) },
		"repeat: axis 4 of":                                             func() { g.Repeat(x, 4, 2) },
		"repeat: 0 copies":                                              func() { g.Repeat(x, 1, 0) },
		"reshape: examples of x f32(2,3,4) do not fill the shape [5 2]": func() { g.Reshape(x, 5, 2) },
		"reshape: examples of x f32(2,3,4) do not fill the shape [5 -1": func() { g.Reshape(x, 5, -1) },
		"reshape: dimensions [-1 -1]":                                   func() { g.Reshape(x, -1, -1) },
		"reshape: dimensions [0 12]":                                    func() { g.Reshape(x, 0, 12) },
		"want at most 7 dimensions":                                     func() { g.Reshape(x, 12, 1, 1, 1, 1, 1, 1, 1) },
		"transpose: axis 0 of":                                          func() { g.Transpose(x, 0, 1) },
		"one-hot: x":                                                    func() { g.OneHot(x, 3) },
		"end-loss: w":                                                   func() { g.EndLoss(w) },
		"softmax: input ids":                                            func() { g.Softmax(ids) },
		"sub: inputs":                                                   func() { g.Sub(x, g.Sum(x, 1)) },
		"div: inputs":                                                   func() { g.Div(x, g.Sum(x, 1)) },
		"concat: 9 inputs, want 1 to 8":                                 func() { g.Concat(slices.Repeat([]*graph.Node{x}, 9)...) },
		"max: axis 0 of":                                                func() { g.Max(x, 0) },
		"gather: index x":                                               func() { g.Gather(x, x) },
		"gather: w f32(3,4) has no examples":                            func() { g.Gather(w, ids) },
		"batch-matmul: w f32(3,4) has no examples":                      func() { g.BatchMatMul(x, w) },
		"batch-matmul: inner dimensions of x":                           func() { g.BatchMatMul(x, x) },
		"batch-matmul-bt: x f32(2,3,4) and repeat f32(2,3,5,4) differ":  func() { g.BatchMatMulT(x, g.Repeat(x, 2, 5)) },
	} {
		testkit.Has(t, refused(t, f), want)
	}
}

// What a LLaMA consists of names the value or the sizes that do not fit.
func TestGroupedOpsAreRefused(t *testing.T) {
	g := &graph.Graph{}
	x := g.NewNode(graph.Input, "x", graph.F32, 2, 3, 12)
	k := g.NewNode(graph.Input, "k", graph.F32, 2, 3, 6)
	long := g.NewNode(graph.Input, "long", graph.F32, 2, 9, 6)
	ids := g.NewNode(graph.Input, "ids", graph.I32, 2, 3)
	angles := g.NewNode(graph.Const, "angles", graph.F32, 5, 6)
	gamma := g.NewNode(graph.Param, "gamma", graph.F32, 5)
	grouped := func(heads int) op.Attention { return op.Attention{Heads: 4, HeadDim: 3, KVHeads: heads} }
	for want, f := range map[string]func(){
		"attention: 2 inputs where 3 are needed":                            func() { g.Attention(grouped(2), x, k) },
		"attention: 3 heads of keys, want a divisor of 4":                   func() { g.Attention(grouped(3), x, k, k) },
		"attention: q x f32(2,3,12), k k f32(2,3,6) and v x f32(2,3,12) do": func() { g.Attention(grouped(2), x, k, x) },
		"attention: q x f32(2,3,12), k k f32(2,3,6) and v k f32(2,3,6) do":  func() { g.Attention(grouped(4), x, k, k) },
		"rotary: x f32(2,3,12) and heads of 5":                              func() { g.Rotary(x, angles, 5) },
		"rotary: x f32(2,3,12) and heads of 8":                              func() { g.Rotary(x, angles, 8) },
		"rotary: positions angles f32(5,6), want rows of 4":                 func() { g.Rotary(x, angles, 4) },
		"rotary: long f32(2,9,6) has sequences of more than 5 tokens":       func() { g.Rotary(long, angles, 6) },
		"rms-norm: gamma f32(5) does not fit the rows of x":                 func() { g.RMSNorm(x, gamma, 1) },
		"swiglu: inputs x f32(2,3,12) and k f32(2,3,6) differ":              func() { g.SwiGLU(x, k) },
		"embed: ids i32(2,3) has sequences of more than 2 tokens":           func() { g.Embed(angles, ids, g.NewNode(graph.Const, "", graph.F32, 2, 6), 1) },
		"embed: positions angles f32(5,6), want rows of 5":                  func() { g.Embed(g.NewNode(graph.Param, "", graph.F32, 2, 5), ids, angles, 1) },
	} {
		testkit.Has(t, refused(t, f), want)
	}
}

// A depthwise convolution names the weight or the window that does not fit.
func TestDepthwiseIsRefused(t *testing.T) {
	g := &graph.Graph{}
	x := g.NewNode(graph.Input, "x", graph.F32, 2, 4, 4, 3)
	flat := g.NewNode(graph.Input, "flat", graph.F32, 2, 3)
	w := g.NewNode(graph.Param, "w", graph.F32, 3, 3, 3)
	wide := g.NewNode(graph.Param, "wide", graph.F32, 3, 3, 5)
	full := g.NewNode(graph.Param, "full", graph.F32, 3, 3, 3, 5)
	for want, f := range map[string]func(){
		"weight full f32(3,3,3,5) is not (KH, KW, C)":                   func() { g.Depthwise(x, full, op.Square(3, 1), 1) },
		"weight wide f32(3,3,5) is not for the channels of x":           func() { g.Depthwise(x, wide, op.Square(3, 1), 1) },
		"input flat f32(2,3) is not (N, H, W, C)":                       func() { g.Depthwise(flat, w, op.Square(3, 1), 1) },
		"with taps 0 pixels apart, want at least 1":                     func() { g.Depthwise(x, w, op.Square(3, 1), 0) },
		"images x f32(2,4,4,3) are smaller than the window 5x5":         func() { g.Depthwise(x, w, op.Square(3, 1), 2) },
		"window 3x3 stride 0x1 padding 0,0,0,0, want sizes and strides": func() { g.Depthwise(x, w, op.Window{SW: 1}, 1) },
		"drop-path: a rise over -1 steps":                               func() { g.DropPath(x, 0.5, -1, "path") },
	} {
		testkit.Has(t, refused(t, f), want)
	}
}
