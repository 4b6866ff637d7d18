package gpipe

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// phrases are sentences of three letters and their translations, spelt
// backwards, to learn by heart; ids 0, 1 and 2 are padding, begin and end.
func phrases() (b nn.Batch, translations [][]int32) {
	const n, s, t = 12, 5, 5
	source, lengths := make([]int32, n*s), make([]int32, n)
	shifted, targets := make([]int32, n*t), slices.Repeat([]int32{-1}, n*t)
	count := 0
	for i := range n {
		letters := []int32{3 + int32(i%5), 3 + int32(i*i%7), 3 + int32(i/2)}[:1+i%3]
		lengths[i] = int32(copy(source[i*s:], append(slices.Clone(letters), 2)))
		translation := slices.Clone(letters)
		slices.Reverse(translation)
		translations = append(translations, translation)
		shifted[i*t] = 1
		copy(shifted[i*t+1:], translation)
		count += copy(targets[i*t:], append(slices.Clone(translation), 2))
	}
	return nn.Batch{
		Inputs: []nn.Tensor{
			{Shape: []int{n, s}, I32: source}, {Shape: []int{n}, I32: lengths}, {Shape: []int{n, t}, I32: shifted},
		},
		Targets: []nn.Tensor{{Shape: []int{n, t}, I32: targets}},
		Count:   count,
	}, translations
}

// TestDecode: a network that has learned its phrases translates them, and the results are
// the same however it is cut, and with replicas.
func TestDecode(t *testing.T) {
	testkit.NotRaced(t)
	b, translations := phrases()
	layers := must(transformer.Translation(transformer.TranslationConfig{
		Layers: 2, Dim: 24, FeedForward: 48, Heads: 3, SourceVocab: 10, SourceLen: 5, TargetLen: 5, Tie: transformer.TieAll,
	}))(t)
	open := func(r, k, m int) *Trainer {
		return openedForAll(t, Pipeline{
			Layers: layers, Loss: nn.CrossEntropy{}, Replication: Replication{Replicas: r, Groups: 3}, Partitions: k, MicroBatches: m, Numerics: Numerics{Seed: 5, Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.01)},
		}, InputOf(b))
	}
	one, three, replicas := open(1, 1, 1), open(1, 3, 4), open(3, 2, 2)
	decode := func(tr *Trainer) []transformer.Hypothesis {
		t.Helper()
		d := transformer.Decoding{MaxLen: 5, Pad: 0, Begin: 1, End: 2}
		return must(d.Decode(t.Context(), tr.PredictEach, b.Inputs[0], b.Inputs[1]))(t)
	}
	// Early, when translations are long and wrong, and after it has learned them.
	var r *Result
	for step := range 80 {
		for _, tr := range []*Trainer{one, three, replicas} {
			r = stepped(t, tr, b)
		}
		if step != 2 && step != 79 {
			continue
		}
		want := decode(one)
		for name, other := range map[string]*Trainer{"K = 3": three, "R = 3, K = 2": replicas} {
			testkit.Equal(t, cmp.Diff(want, decode(other)), "", "step %d (-K = 1 +%s)", step, name)
		}
		for i, h := range want {
			if step == 79 && (!slices.Equal(h.Tokens, translations[i]) || !h.Ended) {
				t.Errorf("phrase %d is %v, want %v", i, h, translations[i])
			}
		}
		chain(t, three, b, want)
	}
	if one.Hash() != three.Hash() || one.Hash() != replicas.Hash() {
		t.Error("they are not the same network")
	}
	t.Logf("loss %.3g", r.Loss)
}

// chain compares greedy translations with the most probable token after each of
// their prefixes, all predicted at once: each position's prefix is the ids before it.
func chain(t *testing.T, tr *Trainer, b nn.Batch, found []transformer.Hypothesis) {
	t.Helper()
	n, width := b.Inputs[2].Shape[0], b.Inputs[2].Shape[1]
	ids := make([]int32, n*width)
	for i, h := range found {
		ids[i*width] = 1
		copy(ids[i*width+1:(i+1)*width], h.Tokens)
	}
	out := must(tr.Predict(t.Context(), b.Inputs[0], b.Inputs[1], nn.Tensor{Shape: []int{n, width}, I32: ids}))(t)
	vocab := out[0].Shape[2]
	for i, h := range found {
		for j := range min(len(h.Tokens)+1, width) {
			logits := out[0].F32[(i*width+j)*vocab:][2:vocab] // neither padding nor begin
			got, want := int32(2), int32(2+slices.Index(logits, slices.Max(logits)))
			if j < len(h.Tokens) {
				got = h.Tokens[j]
			}
			testkit.Equal(t, got, want, "phrase %d, token %d of %v", i, j, h.Tokens)
		}
	}
}
