package densify

import (
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/train"
)

// The official Transformer, big, has the parameters that ranks exchange: attentions without
// biases, feed-forwards with them, norms before every sub-layer and after both stacks.
func TestParameters(t *testing.T) {
	const dim, ff, vocab, layers = 1024, 4096, 33_708, 6
	attention, norm := 4*dim*dim, 2*dim
	forward := dim*ff + ff + ff*dim + dim
	encoder := attention + forward + 2*norm
	decoder := 2*attention + forward + 3*norm
	want := int64(vocab*dim + layers*(encoder+decoder) + 2*norm)
	testkit.Equal(t, loaded(t, "densify-scaling", densifyScaling).Spec.Parameters, want, "parameters")
}

// Series that give a rank as many tokens share a step, and a smaller share of a node makes
// it longer.
func TestScalingMeasure(t *testing.T) {
	s := loaded(t, "densify-scaling", densifyScaling)
	s.Spec.Model = train.Model{Name: train.Translator, Layers: 1, Dim: 16, FF: 32, Heads: 2, Vocab: 50, Tied: "all"}
	s.Spec.Series = []series{
		{ID: "a", Name: "a", Accelerator: "zenith", Ranks: 1, Tokens: 50, Sentence: 25, Nodes: []int{1, 2}},
		{ID: "b", Name: "b", Accelerator: "zenith", Ranks: 2, Batch: 200, Sentence: 25, Nodes: []int{1, 2}},
	}
	all := cellstest.Measured(t, s)
	testkit.Equal(t, len(all), 3, "samples")
	sample := func(i, nodes int) rankStep {
		return all[s.Spec.cell("", s.Spec.Series[i], nodes, reduce, clock.Link{Bandwidth: 1}).Sample]
	}
	whole, half := sample(0, 1), sample(1, 2)
	if !(half.Seconds > whole.Seconds && whole.Seconds > whole.Backward && whole.Backward > 0 && whole.Fits) {
		t.Errorf("a node %+v, half of one %+v", whole, half)
	}
}

// Ranks of a node divide its processors, its memory and the memory's rate, not its link.
func TestShare(t *testing.T) {
	node := accelerator.Accelerator{F32: 8, BF16: 16, Bandwidth: 32, Memory: 64, Link: clock.Link{Bandwidth: 5}}
	series{Ranks: 4}.share(&node)
	if node.F32 != 2 || node.BF16 != 4 || node.Bandwidth != 8 || node.Memory != 16 || node.Link.Bandwidth != 5 {
		t.Errorf("a quarter has %+v", node)
	}
}

func TestScalingSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("densify-scaling"), [][3]string{
		{"tokens: 5000   #", "tokens: 0 #", "want either tokens of a rank, or a batch"},
		{"sentence: 25", "sentence: 24", "whole sentences of 24"},
		{"parameters: 210804736", "parameters: 1000", "fewer than the table's 34516992"},
		{"name: transformer,", "name: transformer-lm,", "want transformer, without seq"},
		{"128, 200, 300]", "128, 200, 20000]", "at most 65536 ranks"},
		{"nodes: 300, efficiency", "nodes: 301, efficiency", "want a series, one of its nodes"},
		{"way: gather, nodes: 4,", "way: star, nodes: 4,", "and gather or reduce"},
		{"accelerator: stampede2", "accelerator: abacus", "unknown accelerator"},
		{"gather: 4320", "gather: 0", "want a number above 0"},
	})
	s := loaded(t, "densify-scaling", densifyScaling)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		s.Spec.Series[0].Accelerator = file
		return s
	})
}
