package nn_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
)

// layerCases covers every layer. The types in Network.In are those of one
// example, without the dimension of the examples.
var layerCases = []struct {
	name    string
	layers  func() []nn.Layer
	in      []graph.Type
	targets int // rows of an example; 0: no loss
	vocab   int // bound of the integer inputs
	// The layer has statistics across examples: micro-batches have others than
	// the mini-batch.
	statistics bool
}{
	{name: "dense", in: one(programtest.Floats(3, 5)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewDense("dense", nn.DenseConfig{In: 5, Out: 7})}
	}},
	{name: "dense/no bias", in: one(programtest.Floats(5)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewDense("dense", nn.DenseConfig{In: 5, Out: 7, NoBias: true})}
	}},
	{name: "dense/gelu", in: one(programtest.Floats(5)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewDense("dense", nn.DenseConfig{In: 5, Out: 7, Activation: nn.GELU})}
	}},
	{name: "flatten", in: one(programtest.Floats(3, 5)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewFlatten("flat"), nn.NewDense("dense", nn.DenseConfig{In: 15, Out: 2, Activation: nn.Tanh})}
	}},
	{name: "reshape", in: one(programtest.Floats(3, 8)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewReshape("wide", 2, -1), nn.NewActivation("squash", nn.Sigmoid), nn.NewActivation("bend", nn.Softplus)}
	}},
	{name: "func", in: one(programtest.Floats(3, 5)), layers: func() []nn.Layer {
		w := &nn.Param{Name: "slope", Shape: graph.Shape{5}, Init: nn.Constant(0.25)}
		return []nn.Layer{nn.Func("slopes", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			x := in[0]
			slopes := t.Repeat(t.Repeat(t.Param(w), 0, x.Shape[0]), 1, x.Shape[1])
			return []*graph.Node{t.Mul(slopes, x)}
		}, w)}
	}},
	{name: "layer norm", in: one(programtest.Floats(3, 7)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewLayerNorm("norm", nn.LayerNormConfig{Dim: 7})}
	}},
	{name: "dropout", in: one(programtest.Floats(3, 7)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewDropout("dropout", 0.4)}
	}},
	{name: "conv2d", in: one(programtest.Floats(5, 4, 3)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewConv2D("conv", nn.Conv2DConfig{In: 3, Out: 4, Kernel: [2]int{3, 1}, Stride: [2]int{2, 1}, Padding: nn.Same, Bias: true})}
	}},
	{name: "conv2d/explicit padding", in: one(programtest.Floats(5, 4, 3)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewConv2D("conv", nn.Conv2DConfig{In: 3, Out: 2, Kernel: [2]int{2, 2}, Padding: nn.Pads(-1, 1, 0, 1)})}
	}},
	{name: "depthwise", in: one(programtest.Floats(5, 4, 3)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewDepthwise("depthwise", nn.DepthwiseConfig{Channels: 3, Kernel: [2]int{3, 2}, Stride: [2]int{1, 2}, Dilation: 2, Padding: nn.Same})}
	}},
	{name: "separable", in: one(programtest.Floats(5, 4, 3)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewSeparable("separable", nn.SeparableConfig{In: 3, Out: 4, Kernel: [2]int{3, 3}, Stride: [2]int{2, 1}, Padding: nn.Pad(1)})}
	}},
	{name: "average pool", in: one(programtest.Floats(5, 4, 3)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewAvgPool("pool", nn.PoolConfig{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Padding: nn.Pad(1)})}
	}},
	{name: "global average pool", in: one(programtest.Floats(2, 3, 5)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewGlobalAvgPool("pool")}
	}},
	{name: "drop-path", in: one(programtest.Floats(3, 7)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewDropPath("path", 0.4)}
	}},
	{name: "batch norm", in: one(programtest.Floats(2, 3, 7)), statistics: true, layers: func() []nn.Layer {
		return []nn.Layer{nn.NewBatchNorm("norm", nn.BatchNormConfig{Channels: 7})}
	}},
	{name: "embedding", in: one(programtest.Integers(3)), vocab: 5, layers: func() []nn.Layer {
		return []nn.Layer{nn.NewEmbedding("embedding", nn.EmbeddingConfig{Vocab: 5, Dim: 6, SeqLen: 4, Dropout: 0.2})}
	}},
	{name: "attention", in: one(programtest.Floats(5, 6)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewAttention("attention", nn.AttentionConfig{Dim: 6, Heads: 2, Causal: true})}
	}},
	{name: "attention/cross", in: []graph.Type{programtest.Floats(5, 6), programtest.Floats(4, 6), programtest.Integers()}, vocab: 4, layers: func() []nn.Layer {
		return []nn.Layer{nn.NewAttention("attention", nn.AttentionConfig{Dim: 6, Heads: 2, HeadDim: 2, Cross: true, Padded: true})}
	}},
	{name: "additive attention", in: []graph.Type{programtest.Floats(3, 6), programtest.Floats(4, 5), programtest.Integers()}, vocab: 5, layers: func() []nn.Layer {
		return []nn.Layer{nn.NewAdditiveAttention("attention", nn.AdditiveAttentionConfig{Query: 6, Memory: 5, Hidden: 7, Padded: true})}
	}},
	{name: "embedding/plain", in: one(programtest.Integers(3)), vocab: 5, layers: func() []nn.Layer {
		return []nn.Layer{nn.NewEmbedding("embedding", nn.EmbeddingConfig{Vocab: 5, Dim: 6, SeqLen: 4, Plain: true})}
	}},
	{name: "lstm", in: one(programtest.Floats(5, 6)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewLSTM("lstm", nn.LSTMConfig{In: 6, Hidden: 4})}
	}},
	{name: "lstm/bidirectional", in: []graph.Type{programtest.Floats(5, 6), programtest.Integers()}, vocab: 6, layers: func() []nn.Layer {
		return []nn.Layer{nn.NewLSTM("lstm", nn.LSTMConfig{In: 6, Hidden: 3, Bidirectional: true, Padded: true})}
	}},
	{name: "feed-forward", in: one(programtest.Floats(3, 5)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewFeedForward("ff", nn.FeedForwardConfig{Dim: 5, Hidden: 9, Activation: nn.GELU})}
	}},
	{name: "softmax", in: one(programtest.Floats(3, 5)), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewSoftmax("softmax", nn.SoftmaxConfig{Vocab: 11, Dim: 5})}
	}},
	{name: "softmax/tied and a loss", in: one(programtest.Integers(3)), vocab: 7, targets: 3, layers: func() []nn.Layer {
		e := nn.NewEmbedding("embedding", nn.EmbeddingConfig{Vocab: 7, Dim: 6, SeqLen: 3, Dropout: 0.2})
		return []nn.Layer{e, nn.NewSoftmax("softmax", nn.SoftmaxConfig{Vocab: 7, Dim: 6, Tied: e.Table, ClipLogits: 100})}
	}},
}

func one(t graph.Type) []graph.Type { return []graph.Type{t} }

// layerRunner compiles case i for the examples [from, to) of a mini-batch.
func layerRunner(t *testing.T, i, from, to, threads int) (r *programtest.Runner, loss bool) {
	t.Helper()
	c := layerCases[i]
	n := programtest.Network{Layers: c.layers(), Threads: threads}
	for _, in := range c.in {
		in.Shape = append([]int{to - from}, in.Shape...)
		n.In = append(n.In, in)
	}
	if c.targets > 0 {
		n.Loss = nn.CrossEntropy{Smoothing: 0.1}
		n.Targets = one(programtest.Integers(to-from, c.targets))
	}
	r = programtest.CompileLayers(t, n)
	r.Env.Example = uint64(from)
	r.Env.LossScale = 0.125

	example := func(what string, i int, dt graph.DType, x []float32) {
		stream := philox.NewStream(philox.KeyOf(2, fmt.Sprint(what, i)), 0)
		if dt == graph.I32 {
			for j := range x {
				programtest.Ints(x)[j] = int32(1 + stream.Intn(c.vocab-1))
			}
			return
		}
		short(stream, x)
	}
	each := func(what string, dt graph.DType, x []float32) {
		per := len(x) / (to - from)
		for e := range to - from {
			example(what, from+e, dt, x[e*per:(e+1)*per])
		}
	}
	for j, in := range n.In {
		each(fmt.Sprint("in", j, "-"), in.DType, r.In(j))
	}
	if c.targets > 0 {
		each("targets", graph.I32, r.Feed(0))
	} else {
		each("dout", graph.F32, r.DOut(0))
	}
	for _, p := range r.Function.Params {
		if p.Role == graph.Param { // biases that are not 0, and all weights of few digits
			short(philox.NewStream(philox.KeyOf(2, p.Name), 0), r.Param(p.Name))
			for j := range r.Param(p.Name) {
				r.Param(p.Name)[j] /= 4
			}
		}
	}
	return r, c.targets > 0
}

// short fills x with normal numbers of few binary digits.
func short(stream *philox.Stream, x []float32) {
	for i := range x {
		x[i] = float32(math.Round(16*stream.Normal()) / 16)
	}
}

func fill(x []float32, name string) { short(philox.NewStream(philox.KeyOf(2, name), 0), x) }

func TestLayerGradients(t *testing.T) {
	for i, c := range layerCases {
		t.Run(c.name, func(t *testing.T) {
			r, loss := layerRunner(t, i, 0, 3, 1)
			r.CheckGradients(t, loss)
		})
	}
}

// TestLayerInvariance: micro-batches, threads and a second run give the bits of
// the whole batch on one thread.
func TestLayerInvariance(t *testing.T) {
	const batch = 5
	for i, c := range layerCases {
		t.Run(c.name, func(t *testing.T) {
			want := programtest.Results{}
			whole, _ := layerRunner(t, i, 0, batch, 1)
			want.Step(whole, 0)

			clear(whole.Space(program.Grads))
			again := programtest.Results{}
			again.Step(whole, 0)
			want.Same(t, again, "again")

			threads := programtest.Results{}
			r, _ := layerRunner(t, i, 0, batch, 2)
			threads.Step(r, 0)
			want.Same(t, threads, "two threads")

			if c.statistics {
				return
			}
			split := programtest.Results{}
			var grads []float32
			for from := 0; from < batch; {
				to := min(from+2, batch)
				r, _ := layerRunner(t, i, from, to, 1)
				copy(r.Space(program.Grads), grads)
				split.Step(r, from)
				grads = r.Space(program.Grads)
				from = to
			}
			want.Same(t, split, "micro-batches")
		})
	}
}

// TestMisuse: a programmer's mistake panics with the package's prefix.
func TestMisuse(t *testing.T) {
	x := func(shape ...int) []graph.Type { return one(programtest.Floats(shape...)) }
	forward := func(in []graph.Type, layers ...nn.Layer) func() {
		return func() { trace.Layers(layers, 0, nil, in, nil, true) }
	}
	dense := nn.NewDense("fc", nn.DenseConfig{In: 3, Out: 2})
	table := &nn.Param{Name: "table", Shape: graph.Shape{5, 4}}
	for want, f := range map[string]func(){
		`dense "fc": Out is 0`:                                    func() { nn.NewDense("fc", nn.DenseConfig{In: 3}) },
		`dense "fc": In is -1`:                                    func() { nn.NewDense("fc", nn.DenseConfig{In: -1, Out: 3}) },
		`dense "fc": unknown activation`:                          func() { nn.NewDense("fc", nn.DenseConfig{In: 3, Out: 3, Activation: 9}) },
		`dense "fc": BiasInit`:                                    func() { nn.NewDense("fc", nn.DenseConfig{In: 3, Out: 3, NoBias: true, BiasInit: nn.Ones()}) },
		`dense "fc": 2 tensors`:                                   forward(append(x(4, 3), x(4, 3)...), dense),
		`(4,5) comes in, want rows of 3`:                          forward(x(4, 5), dense),
		`layer norm "n": Dim is 0`:                                func() { nn.NewLayerNorm("n", nn.LayerNormConfig{}) },
		`layer norm "n": Eps is -1`:                               func() { nn.NewLayerNorm("n", nn.LayerNormConfig{Dim: 2, Eps: -1}) },
		`dropout "d": rate is 1`:                                  func() { nn.NewDropout("d", 1) },
		`dropout "d": rate is NaN`:                                func() { nn.NewDropout("d", float32(math.NaN())) },
		`embedding "e": SeqLen is 0`:                              func() { nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 2, Dim: 2}) },
		`at most 4 tokens`:                                        forward(one(programtest.Integers(2, 5)), nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 2, Dim: 2, SeqLen: 4})),
		`embedding "e": tied to table of shape (5,4), want (4,5)`: func() { nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 4, Dim: 5, SeqLen: 3, Tied: table}) },
		`embedding "e": Init of a tied table`: func() {
			nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 5, Dim: 4, SeqLen: 3, Tied: table, Init: nn.Ones()})
		},
		`attention "a": 3 heads do not`:             func() { nn.NewAttention("a", nn.AttentionConfig{Dim: 8, Heads: 3}) },
		`attention "a": 1 tensors come in`:          forward(x(2, 3, 8), nn.NewAttention("a", nn.AttentionConfig{Dim: 8, Heads: 2, Padded: true})),
		`feed-forward "f": Hidden is 0`:             func() { nn.NewFeedForward("f", nn.FeedForwardConfig{Dim: 8}) },
		`layers is -1`:                              func() { nn.NewFeedForward("f", nn.FeedForwardConfig{Dim: 8, Hidden: 8, ScaleLayers: -1}) },
		`softmax "s": ClipLogits is -1`:             func() { nn.NewSoftmax("s", nn.SoftmaxConfig{Vocab: 5, Dim: 4, ClipLogits: -1}) },
		`tied to table of shape (5,4)`:              func() { nn.NewSoftmax("s", nn.SoftmaxConfig{Vocab: 4, Dim: 5, Tied: table}) },
		`Init of a tied weight`:                     func() { nn.NewSoftmax("s", nn.SoftmaxConfig{Vocab: 5, Dim: 4, Tied: table, Init: nn.Ones()}) },
		`conv2d "c": Kernel is 0`:                   func() { nn.NewConv2D("c", nn.Conv2DConfig{In: 1, Out: 1}) },
		`comes in, want images`:                     forward(x(4, 3), nn.NewConv2D("c", nn.Conv2DConfig{In: 3, Out: 1, Kernel: [2]int{1, 1}})),
		`comes in, want rows of 2`:                  forward(x(4, 5, 5, 3), nn.NewConv2D("c", nn.Conv2DConfig{In: 2, Out: 1, Kernel: [2]int{1, 1}})),
		`depthwise "d": Channels is 0`:              func() { nn.NewDepthwise("d", nn.DepthwiseConfig{Kernel: [2]int{3, 3}}) },
		`depthwise "d": Dilation is -1`:             func() { nn.NewDepthwise("d", nn.DepthwiseConfig{Channels: 1, Kernel: [2]int{3, 3}, Dilation: -1}) },
		`separable "s": Out is 0`:                   func() { nn.NewSeparable("s", nn.SeparableConfig{In: 1, Kernel: [2]int{3, 3}}) },
		`depthwise "d": input 0`:                    forward(x(4, 3), nn.NewDepthwise("d", nn.DepthwiseConfig{Channels: 3, Kernel: [2]int{1, 1}})),
		`max pool "p": Stride is -1`:                func() { nn.NewMaxPool("p", nn.PoolConfig{Kernel: [2]int{2, 2}, Stride: [2]int{-1, 0}}) },
		`batch norm "n": Momentum is 1`:             func() { nn.NewBatchNorm("n", nn.BatchNormConfig{Channels: 2, Momentum: 1}) },
		`batch norm "layer/n": 1 value per channel`: forward(x(1, 2), nn.Sequential("layer", nn.NewBatchNorm("n", nn.BatchNormConfig{Channels: 2}))),
		`drop-path "d": rate is 1`:                  func() { nn.NewDropPath("d", 1) },
		`sequential: want a name`:                   func() { nn.Sequential("") },
		`func "f": want a forward function`:         func() { nn.Func("f", nil) },
		`activation "a": unknown`:                   func() { nn.NewActivation("a", 9) },
		`flatten "x": 2 tensors`:                    forward(append(x(4, 3), x(4, 3)...), nn.NewFlatten("x")),
		`has no fan in and out`:                     func() { nn.HeNormal()(nil, graph.Shape{3}, make([]float32, 3)) },
	} {
		func() {
			defer func() {
				got := fmt.Sprint(recover())
				if _, after, ok := strings.Cut(got, ": "); ok && strings.HasPrefix(got, "layer ") {
					got = after
				}
				if !strings.HasPrefix(got, "nn: ") || !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q after the prefix nn:", got, want)
				}
			}()
			f()
		}()
	}
}

// TestNoDecay: which parameters weight decay leaves alone.
func TestNoDecay(t *testing.T) {
	layers := []nn.Layer{
		nn.NewDense("dense", nn.DenseConfig{In: 2, Out: 2}),
		nn.NewLayerNorm("norm", nn.LayerNormConfig{Dim: 2}),
		nn.NewEmbedding("embedding", nn.EmbeddingConfig{Vocab: 2, Dim: 2, SeqLen: 2}),
		nn.NewSoftmax("softmax", nn.SoftmaxConfig{Vocab: 2, Dim: 2}),
	}
	decays := map[string]bool{"dense/weight": true, "embedding/table": true, "softmax/weight": true}
	for _, l := range layers {
		for _, p := range l.Params() {
			if !p.Frozen && p.NoDecay == decays[p.Name] {
				t.Errorf("%s: NoDecay is %v", p.Name, p.NoDecay)
			}
		}
	}
}
