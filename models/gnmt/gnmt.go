package gnmt

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Config describes a GNMT.
type Config struct {
	Layers int // recurrent layers of the encoder, and as many of the decoder; at least 2
	Dim    int // width: units of each recurrent layer, at least 1

	SourceVocab int  // tokens of the source, at least 1
	TargetVocab int  // tokens of the target; 0: SourceVocab
	SourceLen   int  // longest source, at least 1
	TargetLen   int  // longest target; 0: SourceLen
	Shared      bool // one table for both embeddings, which wants one vocabulary; the softmax has its own

	Dropout float32 // rate before every recurrent layer, in [0, 1); 0: none
	// ScaledInit makes the limit of initial weights 0.1 at width 1024, and at others grow with the
	// inverse root of the width, so that sums over it start with as much variance: narrow
	// networks learn faster. Otherwise it is 0.1 at all widths, as in the reference.
	ScaledInit bool
}

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	c = c.withDefaults()
	for _, f := range []struct {
		name         string
		value, least int
	}{
		{"Layers", c.Layers, 2}, {"Dim", c.Dim, 1}, {"SourceVocab", c.SourceVocab, 1}, {"TargetVocab", c.TargetVocab, 1},
		{"SourceLen", c.SourceLen, 1}, {"TargetLen", c.TargetLen, 1},
	} {
		if f.value < f.least {
			return fmt.Errorf("gnmt: %s is %d, want at least %d", f.name, f.value, f.least)
		}
	}
	switch {
	case c.Shared && c.SourceVocab != c.TargetVocab:
		return fmt.Errorf("gnmt: one table for a SourceVocab of %d and a TargetVocab of %d: want one vocabulary", c.SourceVocab, c.TargetVocab)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("gnmt: Dropout is %v, want at least 0 and less than 1", c.Dropout)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.TargetVocab, c.TargetLen = cmp.Or(c.TargetVocab, c.SourceVocab), cmp.Or(c.TargetLen, c.SourceLen)
	return c
}

// The members of the tuple that the encoder's layers pass on. The decoder's pass on its states and what the attention
// has found, (n, t, dim) both.
const (
	source  = iota // (n, s, dim): the encoder's states
	lengths        // (n) int32: of the sources
	target         // (n, t, dim): the embedded targets
)

// New builds a GNMT: layers "embedding", "encoder1", ..., "decoder1", ... and "softmax". Inputs and output are as in
// transformer.Translation: source ids (n, s), source lengths (n) and target ids (n, t) shifted right; logits (n, t,
// target vocabulary).
//
// The encoder's first layer has both directions. Residual connections start from the third layer of either side. The
// states of the decoder's first layer are the queries of an additive attention to the encoder's states, and its result
// is concatenated with the input of all subsequent layers ("gnmt_v2"). All weights start evenly from -0.1 to 0.1 (but see ScaledInit). Each
// gate has one bias, as in TensorFlow's cells; the reference has two, one of which starts from 0, as cuDNN does.
// Recurrent layers of the decoder start from a state of zeros.
func New(c Config) ([]nn.Layer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	layers := []nn.Layer{c.embedding()}
	for i := range c.Layers {
		layers = append(layers, c.encoder(i))
	}
	for i := range c.Layers {
		layers = append(layers, c.decoder(i))
	}
	return append(layers, nn.Sequential("softmax", nn.NewSoftmax("", nn.SoftmaxConfig{Vocab: c.TargetVocab, Dim: c.Dim, Init: c.start()}))), nil
}

// start initialises all weights (the reference's default init_weight).
func (c Config) start() nn.Initializer {
	if c.ScaledInit {
		return nn.Uniform(0.1 * math.Sqrt(1024/float64(c.Dim)))
	}
	return nn.Uniform(0.1)
}

func (c Config) embedding() nn.Layer {
	from := nn.NewEmbedding("source", nn.EmbeddingConfig{Vocab: c.SourceVocab, Dim: c.Dim, SeqLen: c.SourceLen, Plain: true, Init: c.start()})
	of := nn.EmbeddingConfig{Vocab: c.TargetVocab, Dim: c.Dim, SeqLen: c.TargetLen, Plain: true, Init: c.start()}
	if c.Shared {
		of.Tied, of.Init = from.Table, nil
	}
	to := nn.NewEmbedding("target", of)
	return nn.Func("embedding", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		nn.WantTuple("gnmt", "embedding", in, 3)
		return []*graph.Node{source: from.Forward(t, in[source])[0], lengths: in[lengths], target: to.Forward(t, in[target])[0]}
	}, nn.ParamsOf(from, to)...)
}

// lstm returns a recurrent layer of some inputs' width.
func (c Config) lstm(width int, encoder, both bool) nn.Layer {
	return nn.NewLSTM("lstm", nn.LSTMConfig{In: width, Hidden: c.Dim, Padded: encoder, Bidirectional: both, Init: c.start()})
}

// encoder returns layer i of the encoder, from 0.
func (c Config) encoder(i int) nn.Layer {
	width := c.Dim
	if i == 1 {
		width = 2 * c.Dim // both directions
	}
	dropout, lstm := nn.NewDropout("dropout", c.Dropout), c.lstm(width, true, i == 0)
	return nn.Func(fmt.Sprintf("encoder%d", i+1), func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		h := lstm.Forward(t, dropout.Forward(t, in[source])[0], in[lengths])[0]
		if i >= 2 {
			h = t.Add(h, in[source])
		}
		out := slices.Clone(in)
		out[source] = h
		return out
	}, lstm.Params()...)
}

// decoder returns layer i of the decoder, from 0.
func (c Config) decoder(i int) nn.Layer {
	name, dropout := fmt.Sprintf("decoder%d", i+1), nn.NewDropout("dropout", c.Dropout)
	if i == 0 {
		lstm := c.lstm(c.Dim, false, false)
		attention := nn.NewAdditiveAttention("attention", nn.AdditiveAttentionConfig{Query: c.Dim, Memory: c.Dim, Hidden: c.Dim, Padded: true, Init: c.start()})
		return nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			h := lstm.Forward(t, dropout.Forward(t, in[target])...)[0]
			return []*graph.Node{h, attention.Forward(t, h, in[source], in[lengths])[0]}
		}, nn.ParamsOf(lstm, attention)...)
	}
	lstm := c.lstm(2*c.Dim, false, false)
	return nn.Func(name, func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		h := lstm.Forward(t, dropout.Forward(t, t.Concat(in...))...)[0]
		if i >= 2 {
			h = t.Add(h, in[0])
		}
		if i == c.Layers-1 {
			return []*graph.Node{h}
		}
		return []*graph.Node{h, in[1]}
	}, lstm.Params()...)
}
