package gpipe

import (
	"errors"
	"strings"
	"testing"

	"gpipebench/nn"
)

// A layer whose constructor was given what cannot be is an error of Open, and of all that traces a
// network, which names the layer.
func TestMisusedConstructors(t *testing.T) {
	in := InputOf(small.data(0))
	for want, layer := range map[string]nn.Layer{
		`dense "a": Out is 0`:                 nn.NewDense("a", nn.DenseConfig{In: 2}),
		`conv2d "part": Kernel is 0`:          nn.Sequential("whole", nn.NewConv2D("part", nn.Conv2DConfig{In: 1, Out: 1})),
		`attention "a": 3 heads do not`:       nn.NewAttention("a", nn.AttentionConfig{Dim: 8, Heads: 3}),
		`drop-path "d": a rise over -1 steps`: nn.NewDropPath("d", 0.1).Rising(-1),
		`dropout "e/dropout": rate is 2`:      nn.NewEmbedding("e", nn.EmbeddingConfig{Vocab: 64, Dim: 8, SeqLen: 64, Dropout: 2}),
	} {
		p := small.pipeline(t)
		p.Layers = append([]nn.Layer{layer}, p.Layers...)
		_, opened := p.Open(in)
		_, described := p.Describe(in)
		_, planned := p.Plans(in)
		for what, err := range map[string]error{"open": opened, "describe": described, "plans": planned} {
			var misfit *MisfitError
			if !errors.As(err, &misfit) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", what, err, want)
			}
		}
	}
}
