package transformer

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var smallTranslation = TranslationConfig{
	Layers: 2, Dim: 8, FeedForward: 24, Heads: 3, HeadDim: 4, SourceVocab: 13, SourceLen: 6, TargetLen: 5,
	Dropout: 0.2, ClipLogits: 1.5, ScaledInit: true,
}

// translationSample is a model and a mini-batch of ragged sources and targets.
func translationSample(t *testing.T, c TranslationConfig) sample {
	t.Helper()
	layers := build(t, c)
	c = c.withDefaults()
	const examples = 6
	sources := tokens{data: []int32{6, 1, 4, 5, 2, 6}}
	targets := randomTokens("targets", examples, c.TargetLen, c.TargetVocab)
	for e, length := range []int{5, 3, 1, 4, 5, 2} {
		for j := length; j < c.TargetLen; j++ {
			targets.data[e*c.TargetLen+j] = -1
		}
	}
	return sample{
		layers: layers,
		inputs: []tokens{
			randomTokens("sources", examples, c.SourceLen, c.SourceVocab),
			sources,
			randomTokens("shifted targets", examples, c.TargetLen, c.TargetVocab),
		},
		targets: targets,
	}
}

// TestTranslationBoundary: at a cut, a member of the tuple that is passed on
// has a gradient exactly if a later layer uses it. Lengths never have one; the
// encoder's states have one up to the last cross-attention, and the target's
// also before the encoder layers, which only pass them on.
func TestTranslationBoundary(t *testing.T) {
	c := smallTranslation
	c.Fine = true
	m := translationSample(t, c)
	stages := m.compile(t, every(len(m.layers), 1), 2, 1)
	got := map[string][]string{}
	for k, s := range stages[1:] {
		behind := m.layers[k].Name()
		for i, in := range s.Stage.In {
			what := fmt.Sprintf("%v%v", in.DType, in.Shape)
			if s.Stage.DIn[i].Len > 0 {
				what += " with gradient"
			}
			got[behind] = append(got[behind], what)
		}
		// A stage sends a gradient exactly where the one before receives it.
		for i, d := range stages[k].Stage.DOut {
			if d.Len != s.Stage.DIn[i].Len {
				t.Errorf("after %s: a gradient of %d elements is expected, one of %d is sent", behind, d.Len, s.Stage.DIn[i].Len)
			}
		}
	}
	all := []string{"f32(2,6,8) with gradient", "i32(2)", "f32(2,5,8) with gradient"}
	late := []string{"f32(2,6,8)", "i32(2)", "f32(2,5,8) with gradient"}
	want := map[string][]string{"decoder2/cross": late, "decoder2/feedforward": late}
	for _, l := range m.layers[:len(m.layers)-3] {
		want[l.Name()] = all
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
