package transformer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
)

// TestTranslationBoundary: cut before every layer, a member of the tuple that is passed on
// has a gradient exactly if a later layer uses it. Lengths never have one; the
// encoder's states have one up to the last cross-attention, and the target's
// also before the encoder layers, which only pass them on.
func TestTranslationBoundary(t *testing.T) {
	layers := build(t, TranslationConfig{
		Layers: 2, Dim: 8, FeedForward: 24, Heads: 3, HeadDim: 4, SourceVocab: 13, SourceLen: 6, TargetLen: 5, Fine: true,
	})
	in := []graph.Type{programtest.Integers(2, 6), programtest.Integers(2), programtest.Integers(2, 5)}
	targets := in[2:]
	traced := make([]*trace.Stage, len(layers))
	for k := range layers[:len(layers)-1] {
		traced[k] = trace.Layers(layers[k:k+1], k, nil, in, nil, true)
		in = traced[k].Out
	}
	last := len(layers) - 1
	traced[last] = trace.Layers(layers[last:], last, nn.CrossEntropy{}, in, targets, true)

	got := map[string][]string{}
	var gradOut []bool // a stage sends a gradient exactly where the one before receives it
	for k, s := range slices.Backward(traced[1:]) {
		r := programtest.Compile(t, s.Function, gradOut, 1)
		gradOut = nil
		for i, in := range r.Stage.In {
			has := r.Stage.DIn[i].Len > 0
			gradOut = append(gradOut, has)
			what := fmt.Sprintf("%v%v", in.DType, in.Shape)
			if has {
				what += " with gradient"
			}
			got[layers[k].Name()] = append(got[layers[k].Name()], what)
		}
	}
	all := []string{"f32(2,6,8) with gradient", "i32(2)", "f32(2,5,8) with gradient"}
	late := []string{"f32(2,6,8)", "i32(2)", "f32(2,5,8) with gradient"}
	want := map[string][]string{"decoder2/cross": late, "decoder2/feedforward": late}
	for _, l := range layers[:len(layers)-3] {
		want[l.Name()] = all
	}
	testkit.Equal(t, cmp.Diff(want, got), "", "-want +got")
}
