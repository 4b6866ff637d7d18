package transformer

import (
	"math"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// family is GPipe's T(L, H, A) (section 5: model dimension 1024, vocabulary
// 64k) with the parameters as printed, and by the convention in Translation's
// comment.
var family = []struct {
	layers, feedForward, heads int
	printed                    float64
	want                       int64
}{
	{6, 8192, 16, 400e6, 408_207_872},
	{24, 8192, 16, 1.3e9, 1_239_417_344},
	{12, 16384, 32, 1.3e9, 1_239_233_024},
	{32, 16384, 32, 3e9, 3_086_057_984},
	{64, 16384, 32, 6e9, 6_040_977_920},
}

// TestFamily counts the family by shapes alone.
func TestFamily(t *testing.T) {
	for i, got := range countFamily(t, 64000, 64, TieSoftmax) {
		f := family[i]
		t.Logf("T(%d,%d,%d): %d parameters, printed %.3g: %+.1f%%", f.layers, f.feedForward, f.heads, got, f.printed, 100*(float64(got)/f.printed-1))
		if byHand := countByHand(64000, 1024, f.layers, f.feedForward, 64*f.heads); got != f.want || got != byHand {
			t.Errorf("%d parameters, want %d; by hand %d", got, f.want, byHand)
		}
	}
}

// TestFamilyConvention: no other convention is closer to the five printed
// numbers, by the largest deviation.
func TestFamilyConvention(t *testing.T) {
	furthest := func(vocab, headDim int, tie Tie) (most float64) {
		for i, n := range countFamily(t, vocab, headDim, tie) {
			most = max(most, math.Abs(float64(n)/family[i].printed-1))
		}
		t.Logf("vocabulary %d, head size %3d (0: 1024/heads), tied %-8v off by up to %4.1f%%", vocab, headDim, tie, 100*most)
		return most
	}
	ours := furthest(64000, 64, TieSoftmax)
	if ours > 0.048 {
		t.Errorf("off by up to %.1f%%", 100*ours)
	}
	for _, headDim := range []int{0, 32, 64, 128} {
		for _, tie := range []Tie{TieNone, TieSoftmax, TieAll} {
			if e := furthest(64000, headDim, tie); e < ours {
				t.Errorf("head size %d, tied %v comes nearer", headDim, tie)
			}
		}
	}
	// 65,536 tokens are as close; but Table 1's 32k are exactly 32,000.
	testkit.Near(t, furthest(65536, 64, TieSoftmax), ours, 0.005, "65,536 tokens are off by up to")
}

func countFamily(t *testing.T, vocab, headDim int, tie Tie) (params []int64) {
	t.Helper()
	for _, f := range family {
		layers := testkit.Must(Translation(TranslationConfig{
			Layers: f.layers, Dim: 1024, FeedForward: f.feedForward, Heads: f.heads, HeadDim: headDim,
			SourceVocab: vocab, SourceLen: 1024, Tie: tie,
		}))(t)
		params = append(params, nn.CountParams(layers))
	}
	return params
}

// countByHand counts a model with two tables of vocab tokens; inner is the
// width of all heads.
func countByHand(vocab, dim, layers, feedForward, inner int) int64 {
	v, d, f, i := int64(vocab), int64(dim), int64(feedForward), int64(inner)
	norm := 2 * d
	attention := norm + 3*(d*i+i) + (i*d + d)
	feed := norm + (d*f + f) + (f*d + d)
	encoder, decoder := attention+feed, 2*attention+feed
	return 2*v*d + v + int64(layers)*(encoder+decoder) + norm // the norm after the encoder
}
