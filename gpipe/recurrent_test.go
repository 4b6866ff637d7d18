package gpipe

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// recurrent is a network of scans in both directions over sources of different lengths,
// which the layers pass on.
func recurrent(t testing.TB, inside bool) (translation, Pipeline) {
	t.Helper()
	m := smallTranslation
	m.model.SourceLen, m.model.TargetLen = 6, 6
	const dim = 10
	// on applies a layer to the states; lengths are passed on.
	on := func(name string, l nn.Layer, padded bool) nn.Layer {
		return nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			of := in[:1:1]
			if padded {
				of = in[:2:2]
			}
			return append(l.Forward(t, of...), in[1])
		}, l.Params()...)
	}
	scan := func(name string, in int, both bool) nn.Layer {
		return on(name, nn.NewLSTM("", nn.LSTMConfig{In: in, Hidden: dim, Bidirectional: both, Padded: true, Inside: inside}), true)
	}
	softmax := nn.NewSoftmax("", nn.SoftmaxConfig{Vocab: m.model.SourceVocab, Dim: dim})
	p := m.pipeline(t)
	p.Layers = []nn.Layer{
		on("embedding", nn.NewEmbedding("", nn.EmbeddingConfig{Vocab: m.model.SourceVocab, Dim: dim, SeqLen: 6, Dropout: 0.2}), false),
		scan("lstm1", dim, true), scan("lstm2", 2*dim, false), scan("lstm3", dim, true), scan("lstm4", 2*dim, false), scan("lstm5", dim, false), scan("lstm6", dim, false),
		nn.Func("softmax", func(t *nn.Trace, in ...*graph.Node) []*graph.Node { return softmax.Forward(t, in[0]) }, softmax.Params()...),
	}
	return m, p
}

// TestRecurrentInside: a scan that projects its input inside has the losses of the first
// step, to the bit, and gradients within their rounding. Its bits depend on the
// micro-batches and on nothing else, and the network says so.
func TestRecurrentInside(t *testing.T) {
	m, hoisted := recurrent(t, false)
	_, inside := recurrent(t, true)
	gradients := func(p Pipeline) (float64, []float32) {
		tr := opened(t, p, InputOf(m.data(0)))
		r := must(tr.Differentiate(t.Context(), m.data(0)))(t)
		return r.Loss, flat(tr.Gradients())
	}
	loss, want := gradients(hoisted)
	other, got := gradients(inside)
	testkit.Equal(t, loss, other, "loss")
	same := 0
	for i := range want {
		if d := got[i] - want[i]; d > 1e-6 || d < -1e-6 {
			t.Fatalf("gradient %d is %v inside, %v hoisted", i, got[i], want[i])
		}
		if got[i] == want[i] {
			same++
		}
	}
	if same == len(want) {
		t.Error("all gradients have the same bits")
	}

	d, err := inside.Describe(InputOf(m.data(0)))
	if err != nil || len(d.OutsideContract) != 1 || d.OutsideContract[0] != "lstm-inside" {
		t.Errorf("outside the contract: %v, %v", d.OutsideContract, err)
	}
	one := m.train(t, inside)
	for _, k := range []int{2, 5} {
		inside.Partitions, inside.Devices = k, []Device{{Threads: 2}}
		testkit.Equal(t, m.train(t, inside), one, "K=%d", k)
	}
}
