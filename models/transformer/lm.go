// Package transformer builds Transformers (Vaswani et al. 2017) of any size
// as lists of pipeline layers.
//
// [LM] is the decoder-only language model whose parameters are exactly those of
// GPipe's Table 1: pre-norm layers with biases everywhere, sinusoidal
// positions, an embedding and a softmax that are not tied, and no norm after
// the last layer unless FinalNorm asks for one.
//
// [Translation] is the encoder-decoder of GPipe's section 5. [LM] is its
// decoder without cross-attention.
package transformer

import (
	"fmt"

	"gpipebench/nn"
)

// Config describes a language model.
type Config struct {
	Layers      int // Transformer layers, at least 1
	Dim         int // width of the model, at least 1; Heads must divide it
	FeedForward int // width inside the feed-forward layers, at least 1
	Heads       int // attention heads, at least 1
	Vocab       int // tokens, at least 1
	SeqLen      int // longest sequence, at least 1

	Activation nn.Activation // of the feed-forward layers, ReLU or GELU; zero: ReLU
	Dropout    float32       // rate after embedding, attention and feed-forward, in [0, 1); 0: none
	Tied       bool          // the softmax uses the embedding's table; zero: it has its own weight

	// FinalNorm normalises the input of the softmax, as most pre-norm Transformers do
	// (Radford et al. 2019, section 2.3; of an encoder and a decoder Xiong et al. 2020,
	// section 3.1): otherwise initial logits grow with depth.
	// Its parameters are softmax/norm/gamma and softmax/norm/beta.
	FinalNorm bool

	// The two cures for unstable deep models (Huang et al. 2019, section 5).
	ScaledInit bool    // feed-forward initialisation scaled down by Layers, see nn.DepthScaled; zero: not scaled
	ClipLogits float32 // largest magnitude of a logit; 0: no limit

	// Fine splits each Transformer layer into two pipeline layers, attention
	// and feed-forward, for more even partitions than layers allow. Parameters,
	// their paths, random numbers and so every bit stay the same.
	Fine bool

	// Parts divides each layer over T devices, and makes the layers that one of them has: a T-th of the
	// heads, of the feed-forward's width and of the vocabulary. They can be modelled and not run.
	Parts nn.Parts
}

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	if err := positive(
		field{"Layers", c.Layers}, field{"Dim", c.Dim}, field{"FeedForward", c.FeedForward},
		field{"Heads", c.Heads}, field{"Vocab", c.Vocab}, field{"SeqLen", c.SeqLen},
	); err != nil {
		return err
	}
	if c.Dim%c.Heads != 0 {
		return fmt.Errorf("transformer: %d heads do not divide Dim %d: want a divisor of Dim", c.Heads, c.Dim)
	}
	if err := divides(c.Parts, field{"Heads", c.Heads}, field{"FeedForward", c.FeedForward}, field{"Vocab", c.Vocab}, field{"SeqLen", c.SeqLen}); err != nil {
		return err
	}
	return options(c.Activation, c.Dropout, c.ClipLogits)
}

// LM builds a language model: layers "embedding", "layer1", "layer2", ... and
// "softmax". Its inputs are token ids (n, t) int32; its outputs are the logits
// (n, t, vocab) of each position's next token.
func LM(c Config) ([]nn.Layer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	embedding := nn.NewEmbedding("", nn.EmbeddingConfig{
		Vocab: c.Vocab / max(c.Parts.Count, 1), Dim: c.Dim, SeqLen: c.SeqLen, Dropout: c.Dropout,
	})
	softmax := nn.SoftmaxConfig{Vocab: c.Vocab / max(c.Parts.Count, 1), Dim: c.Dim, ClipLogits: c.ClipLogits}
	if c.Tied {
		softmax.Tied = embedding.Table
	}
	layers := []nn.Layer{nn.Sequential("embedding", nn.DividedEmbedding(c.Parts, embedding))}
	for i := range c.Layers {
		layers = append(layers, newLayer(fmt.Sprintf("layer%d", i+1), c)...)
	}
	return append(layers, nn.Sequential("softmax", outputs(c.FinalNorm, softmax, c.Parts)...)), nil
}

// outputs are the softmax and, where there is one, the final norm before it.
func outputs(norm bool, c nn.SoftmaxConfig, parts nn.Parts) []nn.Layer {
	softmax := nn.DividedSoftmax(parts, nn.NewSoftmax("", c))
	if !norm {
		return []nn.Layer{softmax}
	}
	return []nn.Layer{nn.NewLayerNorm("norm", nn.LayerNormConfig{Dim: c.Dim}), softmax}
}
