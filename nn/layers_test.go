package nn_test

import (
	"math"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
)

// layerCases covers the layers and options that PyTorch's vectors do not, here or in a model.
var layerCases = []struct {
	name   string
	in     graph.Type // without the dimension of the examples
	layers func() []nn.Layer
}{
	{name: "dense/gelu", in: programtest.Floats(3, 5), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewDense("dense", nn.DenseConfig{In: 5, Out: 7, Activation: nn.GELU})}
	}},
	{name: "flatten", in: programtest.Floats(3, 5), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewFlatten("flat"), nn.NewDense("dense", nn.DenseConfig{In: 15, Out: 2, Activation: nn.Tanh})}
	}},
	{name: "activations", in: programtest.Floats(3, 8), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewActivation("squash", nn.Sigmoid), nn.NewActivation("bend", nn.Softplus)}
	}},
	{name: "func", in: programtest.Floats(3, 5), layers: func() []nn.Layer {
		w := &nn.Param{Name: "slope", Shape: graph.Shape{5}, Init: nn.Constant(0.25)}
		return []nn.Layer{nn.Func("slopes", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			x := in[0]
			slopes := t.Repeat(t.Repeat(t.Param(w), 0, x.Shape[0]), 1, x.Shape[1])
			return []*graph.Node{t.Mul(slopes, x)}
		}, w)}
	}},
	{name: "dropout", in: programtest.Floats(3, 7), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewDropout("dropout", 0.4)}
	}},
	{name: "drop-path", in: programtest.Floats(3, 7), layers: func() []nn.Layer {
		return []nn.Layer{nn.NewDropPath("path", 0.4)}
	}},
}

func one(t graph.Type) []graph.Type { return []graph.Type{t} }

// fill sets x to normal numbers of few binary digits, which the name determines.
func fill(x []float32, name string) {
	stream := philox.NewStream(philox.KeyOf(2, name), 0)
	for i := range x {
		x[i] = float32(math.Round(16*stream.Normal()) / 16)
	}
}

// TestLayerGradients compares gradients with finite differences. That micro-batches and threads
// change no bit is what nn/program shows for every op, and gpipe for networks.
func TestLayerGradients(t *testing.T) {
	for _, c := range layerCases {
		t.Run(c.name, func(t *testing.T) {
			in := programtest.Floats(append([]int{3}, c.in.Shape...)...)
			r := programtest.CompileLayers(t, programtest.Network{Layers: c.layers(), In: one(in)})
			fill(r.In(0), "in")
			fill(r.DOut(0), "dout")
			for _, p := range r.Function.Params { // biases that are not 0, and all weights of few digits
				fill(r.Param(p.Name), p.Name)
				for j := range r.Param(p.Name) {
					r.Param(p.Name)[j] /= 4
				}
			}
			r.CheckGradients(t, false)
		})
	}
}

// TestMisuse: a programmer's mistake panics with the package's prefix, a constructor's when its
// layer is traced.
func TestMisuse(t *testing.T) {
	x := func(shape ...int) []graph.Type { return one(programtest.Floats(shape...)) }
	forward := func(in []graph.Type, layers ...nn.Layer) func() {
		return func() { trace.Layers(layers, 0, nil, in, nil, true) }
	}
	dense := nn.NewDense("fc", nn.DenseConfig{In: 3, Out: 2})
	// Statistics of one value are a mistake in training only.
	trace.Layers([]nn.Layer{nn.NewBatchNorm("n", nn.BatchNormConfig{Channels: 2})}, 0, nil, x(1, 2), nil, false)
	table := &nn.Param{Name: "table", Shape: graph.Shape{5, 4}}
	for want, f := range map[string]func(){
		`dense "fc": Out is 0`:                                    forward(x(2, 3), nn.NewDense("fc", nn.DenseConfig{In: 3})),
		`dense "fc": In is -1`:                                    forward(x(2, 3), nn.NewDense("fc", nn.DenseConfig{In: -1, Out: 3})),
		`dense "fc": unknown activation`:                          forward(x(2, 3), nn.NewDense("fc", nn.DenseConfig{In: 3, Out: 3, Activation: 9})),
		`dense "fc": BiasInit`:                                    forward(x(2, 3), nn.NewDense("fc", nn.DenseConfig{In: 3, Out: 3, NoBias: true, BiasInit: nn.Ones()})),
		`dense "fc": 2 tensors`:                                   forward(append(x(4, 3), x(4, 3)...), dense),
		`(4,5) comes in with rows of 5, want rows of 3`:           forward(x(4, 5), dense),
		`layer norm "n": Dim is 0`:                                forward(x(2, 3), nn.NewLayerNorm("n", nn.LayerNormConfig{})),
		`layer norm "n": Eps is -1`:                               forward(x(2, 3), nn.NewLayerNorm("n", nn.LayerNormConfig{Dim: 2, Eps: -1})),
		`dropout "d": rate is 1`:                                  forward(x(2, 3), nn.NewDropout("d", 1)),
		`dropout "d": rate is NaN`:                                forward(x(2, 3), nn.NewDropout("d", float32(math.NaN()))),
		`embedding "e": SeqLen is 0`:                              forward(x(2, 3), nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 2, Dim: 2})),
		`at most 4 tokens`:                                        forward(one(programtest.Integers(2, 5)), nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 2, Dim: 2, SeqLen: 4})),
		`embedding "e": tied to table of shape (5,4), want (4,5)`: forward(x(2, 3), nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 4, Dim: 5, SeqLen: 3, Tied: table})),
		`embedding "e": Init of a tied table`:                     forward(x(2, 3), nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 5, Dim: 4, SeqLen: 3, Tied: table, Init: nn.Ones()})),
		`attention "a": 3 heads do not`:                           forward(x(2, 3), nn.NewAttention("a", nn.AttentionConfig{Dim: 8, Heads: 3})),
		`attention "a": 1 tensors come in`:                        forward(x(2, 3, 8), nn.NewAttention("a", nn.AttentionConfig{Dim: 8, Heads: 2, Padded: true})),
		`feed-forward "f": Hidden is 0`:                           forward(x(2, 3), nn.NewFeedForward("f", nn.FeedForwardConfig{Dim: 8})),
		`dense "f/in": unknown activation`:                        forward(x(2, 3), nn.NewFeedForward("f", nn.FeedForwardConfig{Dim: 8, Hidden: 8, Activation: 9})),
		`layers is -1`:                                            forward(x(2, 3), nn.NewFeedForward("f", nn.FeedForwardConfig{Dim: 8, Hidden: 8, ScaleLayers: -1})),
		`RMS norm "n": Dim is 0`:                                  forward(x(2, 3), nn.NewRMSNorm("n", nn.RMSNormConfig{})),
		`RMS norm "n": Eps is -1`:                                 forward(x(2, 3), nn.NewRMSNorm("n", nn.RMSNormConfig{Dim: 2, Eps: -1})),
		`gated feed-forward "f": Hidden is 0`:                     forward(x(2, 3), nn.NewGatedFeedForward("f", nn.GatedFeedForwardConfig{Dim: 8})),
		`KVHeads is 3, want a divisor of 4 heads`:                 forward(x(2, 3), nn.NewGroupedAttention("a", nn.GroupedAttentionConfig{Dim: 8, Heads: 4, KVHeads: 3})),
		`grouped attention "a": 3 heads do not divide`:            forward(x(2, 3), nn.NewGroupedAttention("a", nn.GroupedAttentionConfig{Dim: 8, Heads: 3})),
		`grouped attention "a": no Angles`:                        forward(x(2, 3), nn.NewGroupedAttention("a", nn.GroupedAttentionConfig{Dim: 8, Heads: 2})),
		`softmax "s": ClipLogits is -1`:                           forward(x(2, 3), nn.NewSoftmax("s", nn.SoftmaxConfig{Vocab: 5, Dim: 4, ClipLogits: -1})),
		`softmax "s": SoftClip without a limit`:                   forward(x(2, 3), nn.NewSoftmax("s", nn.SoftmaxConfig{Vocab: 5, Dim: 4, SoftClip: true})),
		`tied to table of shape (5,4)`:                            forward(x(2, 3), nn.NewSoftmax("s", nn.SoftmaxConfig{Vocab: 4, Dim: 5, Tied: table})),
		`Init of a tied weight`:                                   forward(x(2, 3), nn.NewSoftmax("s", nn.SoftmaxConfig{Vocab: 5, Dim: 4, Tied: table, Init: nn.Ones()})),
		`conv2d "c": Kernel is 0`:                                 forward(x(2, 3), nn.NewConv2D("c", nn.Conv2DConfig{In: 1, Out: 1})),
		`conv2d "part": Kernel is 0`:                              forward(x(2, 3), nn.Sequential("whole", nn.NewConv2D("part", nn.Conv2DConfig{In: 1, Out: 1}))),
		`comes in, want images`:                                   forward(x(4, 3), nn.NewConv2D("c", nn.Conv2DConfig{In: 3, Out: 1, Kernel: [2]int{1, 1}})),
		`comes in with rows of 3, want rows of 2`:                 forward(x(4, 5, 5, 3), nn.NewConv2D("c", nn.Conv2DConfig{In: 2, Out: 1, Kernel: [2]int{1, 1}})),
		`depthwise "d": Channels is 0`:                            forward(x(2, 3), nn.NewDepthwise("d", nn.DepthwiseConfig{Kernel: [2]int{3, 3}})),
		`depthwise "d": Dilation is -1`:                           forward(x(2, 3), nn.NewDepthwise("d", nn.DepthwiseConfig{Channels: 1, Kernel: [2]int{3, 3}, Dilation: -1})),
		`separable "s": Out is 0`:                                 forward(x(2, 3), nn.NewSeparable("s", nn.SeparableConfig{In: 1, Kernel: [2]int{3, 3}})),
		`depthwise "d": input 0`:                                  forward(x(4, 3), nn.NewDepthwise("d", nn.DepthwiseConfig{Channels: 3, Kernel: [2]int{1, 1}})),
		`max pool "p": Stride is -1`:                              forward(x(2, 3), nn.NewMaxPool("p", nn.PoolConfig{Kernel: [2]int{2, 2}, Stride: [2]int{-1, 0}})),
		`batch norm "n": Momentum is 1`:                           forward(x(2, 3), nn.NewBatchNorm("n", nn.BatchNormConfig{Channels: 2, Momentum: 1})),
		`batch norm "layer/n": 1 value per channel`:               forward(x(1, 2), nn.Sequential("layer", nn.NewBatchNorm("n", nn.BatchNormConfig{Channels: 2}))),
		`drop-path "d": rate is 1`:                                forward(x(2, 3), nn.NewDropPath("d", 1)),
		`drop-path "d": a rise over -1 steps`:                     forward(x(2, 3), nn.NewDropPath("d", 0.1).Rising(-1)),
		`dropout "e/dropout": rate is 2`:                          forward(one(programtest.Integers(2, 2)), nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 2, Dim: 2, SeqLen: 2, Dropout: 2})),
		`sequential: want a name`:                                 forward(x(2, 3), nn.Sequential("")),
		`func "f": want a forward function`:                       forward(x(2, 3), nn.Func("f", nil)),
		`activation "a": unknown`:                                 forward(x(2, 3), nn.NewActivation("a", 9)),
		`flatten "x": 2 tensors`:                                  forward(append(x(4, 3), x(4, 3)...), nn.NewFlatten("x")),
		`has no fan in and out`:                                   func() { nn.HeNormal()(nil, graph.Shape{3}, make([]float32, 3)) },
	} {
		got := testkit.Panics(t, f, want)
		if _, after, ok := strings.Cut(got, ": "); ok && strings.HasPrefix(got, "layer ") {
			got = after
		}
		if !strings.HasPrefix(got, "nn: ") {
			t.Errorf("panic %q, want the prefix nn:", got)
		}
	}
}

// TestNoDecay: which parameters weight decay leaves alone.
func TestNoDecay(t *testing.T) {
	layers := []nn.Layer{
		nn.NewDense("dense", nn.DenseConfig{In: 2, Out: 2}),
		nn.NewLayerNorm("norm", nn.LayerNormConfig{Dim: 2}),
		nn.NewRMSNorm("rms", nn.RMSNormConfig{Dim: 2}),
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
