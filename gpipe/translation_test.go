package gpipe

import (
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// translation is a small encoder-decoder and a way to run it. What flows is a
// tuple: the encoder's states, the sources' lengths and the decoder's states.
type translation struct {
	model transformer.TranslationConfig
	batch int
	steps int
	// padding changes the ids that must not be read: source tokens beyond the
	// length, and target tokens after the last one that is not masked.
	padding int32
}

// smallTranslation has, besides all that small has, a table with three uses, cross
// attention, ragged sources and an explicit size of heads.
var smallTranslation = translation{
	model: transformer.TranslationConfig{
		Layers: 3, Dim: 16, FeedForward: 24, Heads: 3, HeadDim: 8, SourceVocab: 19, SourceLen: 7, TargetLen: 6,
		Dropout: 0.2, ClipLogits: 4, Tie: transformer.TieAll,
	},
	batch: 9, steps: 3,
}

// cut is the pipeline, cut also inside of layers if it is fine.
func (m translation) cut(t testing.TB, fine bool) Pipeline {
	t.Helper()
	m.model.Fine = fine
	return m.pipeline(t)
}

func (m translation) pipeline(t testing.TB) Pipeline {
	t.Helper()
	return Pipeline{
		Layers: must(transformer.Translation(m.model))(t), Loss: nn.CrossEntropy{Smoothing: 0.1},
		Numerics: Numerics{Seed: 42, Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.01), ClipNorm: 0.5, L2: 1e-3},
	}
}

func (m translation) train(t testing.TB, p Pipeline) outcome {
	t.Helper()
	return train(t, p, m.steps, m.data)
}

// data is mini-batch i of random tokens, with sources and targets of random
// lengths, 1 at least.
func (m translation) data(i int) nn.Batch {
	r := philox.NewStream(philox.KeyOf(7, "translation"), uint64(i))
	n, s, t, vocab := m.batch, m.model.SourceLen, m.model.TargetLen, m.model.SourceVocab
	token := func() int32 { return int32(r.Intn(vocab)) }
	hidden := func() int32 { return (token() + m.padding) % int32(vocab) }
	source, lengths := make([]int32, n*s), make([]int32, n)
	shifted, targets := make([]int32, n*t), make([]int32, n*t)
	count := 0
	for e := range n {
		length := 1 + r.Intn(s)
		lengths[e] = int32(length)
		for j := range s {
			if j < length {
				source[e*s+j] = token()
			} else {
				source[e*s+j] = hidden()
			}
		}
		length = 1 + r.Intn(t)
		count += length
		for j := range t {
			// Position 0 has begin-of-sentence, id 0.
			switch {
			case j >= length:
				shifted[e*t+j] = hidden()
				targets[e*t+j] = -1
			default:
				if j > 0 {
					shifted[e*t+j] = targets[e*t+j-1]
				}
				targets[e*t+j] = token()
			}
		}
	}
	return nn.Batch{
		Inputs: []nn.Tensor{
			{Shape: []int{n, s}, I32: source}, {Shape: []int{n}, I32: lengths}, {Shape: []int{n, t}, I32: shifted},
		},
		Targets: []nn.Tensor{{Shape: []int{n, t}, I32: targets}},
		Count:   count,
	}
}

// TestTranslationG1 is TestG1 for a network whose stages pass on tensors that they
// only read, or do not even read, and exchange the gradients of a table with three
// uses.
func TestTranslationG1(t *testing.T) {
	ties := []transformer.Tie{transformer.TieAll, transformer.TieSoftmax, transformer.TieNone}
	all := append(slices.Clone(factors), variants("tied", ties[0].String(), ties[1].String()+", final norm", ties[2].String()))
	checkG1(t, all, smallTranslation.batch, byVariant, func(t testing.TB, w way) outcome {
		m := smallTranslation
		m.model.Tie, m.model.FinalNorm = ties[w.variant], w.variant == 1
		return m.train(t, w.of(m.cut(t, w.fine)))
	})
}

// TestPaddingIsNotSeen: other ids in the padding give the same losses and weights, to
// the bit.
func TestPaddingIsNotSeen(t *testing.T) {
	for _, k := range []int{1, 4} {
		run := func(m translation) outcome {
			p := m.pipeline(t)
			p.Partitions, p.MicroBatches = k, 2
			return m.train(t, p)
		}
		want := run(smallTranslation)
		for _, padding := range []int32{1, 7, 18} {
			m := smallTranslation
			m.padding = padding
			if slices.Equal(m.data(0).Inputs[0].I32, smallTranslation.data(0).Inputs[0].I32) ||
				slices.Equal(m.data(0).Inputs[2].I32, smallTranslation.data(0).Inputs[2].I32) {
				t.Fatal("no source or no target has padding")
			}
			testkit.Equal(t, run(m), want, "K=%d, other padding", k)
		}
	}
}

// TestEveryTokenCounts is the converse of TestPaddingIsNotSeen: the loss depends on
// the last token before the padding and on each length.
func TestEveryTokenCounts(t *testing.T) {
	loss := func(change func(b nn.Batch)) float64 {
		b := smallTranslation.data(0)
		change(b)
		tr := openedForAll(t, smallTranslation.pipeline(t), InputOf(b))
		return must(tr.Evaluate(t.Context(), b))(t).Loss
	}
	want := loss(func(nn.Batch) {})
	vocab := int32(smallTranslation.model.SourceVocab)
	next := func(id *int32) { *id = (*id + 1) % vocab }
	s, n := smallTranslation.model.SourceLen, smallTranslation.batch
	for e := range n {
		if got := loss(func(b nn.Batch) { next(&b.Inputs[0].I32[e*s+int(b.Inputs[1].I32[e])-1]) }); got == want {
			t.Errorf("example %d: the last source token does not count", e)
		}
		if got := loss(func(b nn.Batch) {
			length := &b.Inputs[1].I32[e]
			*length = 1 + *length%int32(s)
		}); got == want {
			t.Errorf("example %d: the source's length does not count", e)
		}
		if got := loss(func(b nn.Batch) { next(&b.Inputs[2].I32[e*smallTranslation.model.TargetLen]) }); got == want {
			t.Errorf("example %d: the first target token does not count", e)
		}
	}
}

// TestEmptySource: an example with an empty source is legal, and its ids are not
// read either.
func TestEmptySource(t *testing.T) {
	run := func(k int, id int32) outcome {
		p := smallTranslation.pipeline(t)
		p.Partitions, p.MicroBatches, p.testing.poison = k, 4, true
		return train(t, p, 2, func(i int) nn.Batch {
			b := smallTranslation.data(i)
			b.Inputs[1].I32[3] = 0
			b.Inputs[0].I32[3*smallTranslation.model.SourceLen] = id
			return b
		})
	}
	want := run(1, 1)
	want.changes(t)
	testkit.Equal(t, run(4, 2), want)
}
