package transformer

import (
	"cmp"
	"errors"
	"fmt"

	"gpipebench/nn"
)

// TranslationConfig describes an encoder-decoder Transformer.
type TranslationConfig struct {
	Layers      int // encoder layers, and as many decoder layers; at least 1
	Dim         int // width of the model, at least 1
	FeedForward int // width inside the feed-forward layers, at least 1
	Heads       int // attention heads, at least 1
	HeadDim     int // width of a head; 0: Dim/Heads, which must then divide

	SourceVocab int // tokens of the source, at least 1
	TargetVocab int // tokens of the target; 0: SourceVocab
	SourceLen   int // longest source, at least 1
	TargetLen   int // longest target; 0: SourceLen

	Activation nn.Activation // of the feed-forward layers, ReLU or GELU; zero: ReLU
	Dropout    float32       // rate after embeddings, attentions and feed-forwards, in [0, 1); 0: none
	Tie        Tie           // which of the three vocabulary tables are one; zero: none

	// FinalNorm normalises the input of the softmax: see [Config]. The encoder's output is
	// normalised with or without it.
	FinalNorm bool

	// The two cures for unstable deep models (Huang et al. 2019, section 5).
	// The number of layers is 2*Layers: the paper calls its T(64, ...) a
	// "128-layer Transformer".
	ScaledInit bool    // feed-forward initialisation scaled down by that number, see nn.DepthScaled; zero: not scaled
	ClipLogits float32 // largest magnitude of a logit; 0: no limit
	SoftClip   bool    // the limit is soft: see nn.SoftmaxConfig

	// Fine makes each sub-layer a pipeline layer: two of an encoder layer,
	// attention and feed-forward, and three of a decoder layer, which has the
	// cross-attention between them; the encoder's last norm is one, too.
	// Parameters, their paths, random numbers and so every bit stay the same.
	Fine bool
}

// Validate reports the first field that is out of range.
func (c TranslationConfig) Validate() error {
	c = c.withDefaults()
	if err := positive(
		field{"Layers", c.Layers}, field{"Dim", c.Dim}, field{"FeedForward", c.FeedForward}, field{"Heads", c.Heads},
		field{"SourceVocab", c.SourceVocab}, field{"TargetVocab", c.TargetVocab},
		field{"SourceLen", c.SourceLen}, field{"TargetLen", c.TargetLen},
	); err != nil {
		return err
	}
	switch {
	case c.HeadDim < 0:
		return fmt.Errorf("transformer: HeadDim is %d, want at least 1 (0: Dim/Heads)", c.HeadDim)
	case c.HeadDim == 0 && c.Dim%c.Heads != 0:
		return fmt.Errorf("transformer: %d heads do not divide Dim %d: want a divisor of Dim, or HeadDim", c.Heads, c.Dim)
	case c.Tie > TieAll:
		return fmt.Errorf("transformer: Tie is %s, want %s", c.Tie, tieNames)
	case c.Tie == TieAll && c.SourceVocab != c.TargetVocab:
		return fmt.Errorf("transformer: Tie is all, but SourceVocab is %d and TargetVocab %d: want one vocabulary", c.SourceVocab, c.TargetVocab)
	case c.SoftClip && c.ClipLogits == 0:
		return errors.New("transformer: SoftClip without a limit, want ClipLogits above 0")
	}
	return options(c.Activation, c.Dropout, c.ClipLogits)
}

func (c TranslationConfig) withDefaults() TranslationConfig {
	c.TargetVocab, c.TargetLen = cmp.Or(c.TargetVocab, c.SourceVocab), cmp.Or(c.TargetLen, c.SourceLen)
	return c
}

// Translation builds T(L, H, A), the encoder-decoder Transformer of GPipe's
// section 5 with L encoder and L decoder layers, feed-forward width H and A
// heads: layers "embedding", "encoder1", ..., "encoderL", "decoder1", ...,
// "decoderL" and "softmax". Its inputs are
//
//	source ids      (n, s) int32
//	source lengths  (n) int32: tokens at and beyond are padding; 0 is legal
//	target ids      (n, t) int32, shifted right: begin-of-sentence comes first
//
// and its outputs the logits (n, t, target vocabulary) of each target
// position's token. Padding of targets needs no lengths: only later positions
// see it, and its loss is masked.
//
// All layers are one sequence through which a tuple is passed (see member), so
// that a pipeline may be cut anywhere: encoder layers pass on the target's
// states, and decoder layers those of the encoder, to whose gradient each adds
// its own.
//
// Layers are pre-norm. The last encoder layer ends with a norm, so that every
// input of a branch is normalised: without it every decoder layer would add
// values of the encoder's magnitude, and deep models would start from a loss
// that grows with depth. The input of the softmax is normalised only with
// FinalNorm, as in the [LM].
//
// The paper prints its family's parameters as 400M, 1.3B, 1.3B, 3B and 6B at
// model dimension 1024 and a vocabulary of 64k. The closest convention is a
// head size of 64 for any number of heads (otherwise T(24,8192,16) and
// T(12,16384,32) would not agree), 64,000 tokens (65,536 are as close) and
// TieSoftmax: 408,207,872, 1,239,417,344, 1,239,233,024, 3,086,057,984 and
// 6,040,977,920, off by at most 4.7%. No convention rounds to all five.
func Translation(c TranslationConfig) ([]nn.Layer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	embedding, table := translationEmbedding(c)
	softmax := nn.SoftmaxConfig{Vocab: c.TargetVocab, Dim: c.Dim, ClipLogits: c.ClipLogits, SoftClip: c.SoftClip}
	if c.Tie != TieNone {
		softmax.Tied = table
	}
	layers := []nn.Layer{nn.Sequential("embedding", embedding)}
	for i := range c.Layers {
		layers = append(layers, encoderLayer(fmt.Sprintf("encoder%d", i+1), c, i == c.Layers-1)...)
	}
	for i := range c.Layers {
		layers = append(layers, decoderLayer(fmt.Sprintf("decoder%d", i+1), c)...)
	}
	last := append([]nn.Layer{pick(target)}, outputs(c.FinalNorm, softmax, nn.Parts{})...)
	return append(layers, nn.Sequential("softmax", last...)), nil
}
