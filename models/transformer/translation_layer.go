package transformer

import (
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// translationEmbedding embeds both sides, each with its own positions and
// dropout, and makes the tuple that the layers pass on. It also returns the target's
// table for the softmax, which is the source's if all tables are one.
func translationEmbedding(c TranslationConfig) (l nn.Layer, table *nn.Param) {
	side := func(name string, vocab, length int, tied *nn.Param) *nn.Embedding {
		return nn.NewEmbedding(name, nn.EmbeddingConfig{Vocab: vocab, Dim: c.Dim, SeqLen: length, Dropout: c.Dropout, Tied: tied})
	}
	from := side("source", c.SourceVocab, c.SourceLen, nil)
	var shared *nn.Param
	if c.Tie == TieAll {
		shared = from.Table
	}
	to := side("target", c.TargetVocab, c.TargetLen, shared)
	return nn.Func("", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		nn.WantTuple("translation embedding", t.Path(""), in, 3)
		return []*graph.Node{
			source:  from.Forward(t, in[source])[0],
			lengths: in[lengths],
			target:  to.Forward(t, in[target])[0],
		}
	}, nn.ParamsOf(from, to)...), to.Table
}

// encoderLayer is self-attention over the source's tokens and a feed-forward.
// After the last one comes the norm of the decoder's input.
func encoderLayer(name string, c TranslationConfig, last bool) []nn.Layer {
	parts := []nn.Layer{
		c.attention("attention", source, nn.AttentionConfig{Padded: true}, lengths),
		c.feedForward("feedforward", source),
	}
	if last {
		parts = append(parts, on{source, nn.NewLayerNorm("norm", nn.LayerNormConfig{Dim: c.Dim})})
	}
	return nn.Cut(c.Fine, name, parts...)
}

// decoderLayer is causal self-attention over the target, attention from there
// to the source's tokens, and a feed-forward (Vaswani et al. 2017, section 3.1).
func decoderLayer(name string, c TranslationConfig) []nn.Layer {
	return nn.Cut(c.Fine, name,
		c.attention("attention", target, nn.AttentionConfig{Causal: true}),
		c.attention("cross", target, nn.AttentionConfig{Cross: true, Padded: true}, source, lengths),
		c.feedForward("feedforward", target),
	)
}

// attention returns the sub-layer of an attention with the given mask and kind.
func (c TranslationConfig) attention(name string, moves member, a nn.AttentionConfig, reads ...member) nn.Layer {
	a.Dim, a.Heads, a.HeadDim = c.Dim, c.Heads, c.HeadDim
	return c.sublayer(moves, nn.NewAttention(name, a), reads...)
}

// feedForward returns the sub-layer of a feed-forward.
func (c TranslationConfig) feedForward(name string, moves member) nn.Layer {
	f := nn.FeedForwardConfig{Dim: c.Dim, Hidden: c.FeedForward, Activation: c.Activation}
	if c.ScaledInit {
		f.ScaleLayers = 2 * c.Layers
	}
	return c.sublayer(moves, nn.NewFeedForward(name, f))
}

func (c TranslationConfig) sublayer(moves member, branch nn.Layer, reads ...member) nn.Layer {
	norm := nn.NewLayerNorm(branch.Name()+"/norm", nn.LayerNormConfig{Dim: c.Dim})
	return residual(moves, norm, branch, nn.NewDropout(branch.Name()+"/dropout", c.Dropout), reads...)
}
