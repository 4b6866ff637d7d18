// Package llama builds language models of the LLaMA family (Touvron et al. 2023, arXiv 2302.13971
// and 2307.09288; Dubey et al. 2024, arXiv 2407.21783) of any size as lists of pipeline layers:
// RMS norms before attention and feed-forward layer and after the last one, SwiGLU, rotary
// positions, grouped-query attention, no biases and no dropout.
//
// Each weight has the shape, layout and name under which such networks are published, as
// safetensors files of Hugging Face's transformers have them: a file loads into the network and back
// without any change of its values. docs/howto.md has a table of the names. Rotary positions are in
// halves, as there: element j of a head and element j + HeadDim/2 are a pair. Meta's own files pair
// neighbours.
//
// Rotary angles are computed in float64 and rounded once; transformers computes them in float32,
// which is off by up to 2e-4 at position 4,096. The scaling of angles by which Llama 3.1 was extended
// to 131,072 tokens is left out.
package llama

import (
	"cmp"
	"fmt"
	"math"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Config describes a network.
type Config struct {
	Layers      int // at least 1
	Dim         int // width of the model, at least 1
	FeedForward int // width inside the feed-forward layers, at least 1
	Heads       int // of queries, at least 1
	KVHeads     int // of keys and of values, a divisor of Heads; 0: Heads
	HeadDim     int // width of a head, even; 0: Dim/Heads, which must then divide
	Vocab       int // tokens, at least 1
	SeqLen      int // longest sequence, at least 1

	RopeTheta float64 // base of the rotary angles' wavelengths, more than 1; 0: 10,000
	Tied      bool    // the softmax uses the embedding's table; zero: it has its own weight

	// Fine splits each layer into two pipeline layers, attention and feed-forward. Parameters,
	// their paths and so every bit stay the same.
	Fine bool

	// Parts divides each layer over T devices, and makes the layers that one of them has: a T-th of both
	// kinds of heads (of keys at least one), of the feed-forward's width and of the vocabulary. Such
	// layers can be modelled and not run.
	Parts nn.Parts
}

// WithDefaults fills in what a zero value stands for.
func (c Config) WithDefaults() Config {
	c.KVHeads = cmp.Or(c.KVHeads, c.Heads)
	if c.HeadDim == 0 && c.Heads > 0 && c.Dim%c.Heads == 0 {
		c.HeadDim = c.Dim / c.Heads
	}
	c.RopeTheta = cmp.Or(c.RopeTheta, 10_000)
	return c
}

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	c = c.WithDefaults()
	for _, f := range []field{
		{"Layers", c.Layers}, {"Dim", c.Dim}, {"FeedForward", c.FeedForward}, {"Heads", c.Heads}, {"KVHeads", c.KVHeads},
		{"Vocab", c.Vocab}, {"SeqLen", c.SeqLen},
	} {
		if f.value < 1 {
			return fmt.Errorf("llama: %s is %d, want at least 1", f.name, f.value)
		}
	}
	switch {
	case c.HeadDim == 0:
		return fmt.Errorf("llama: %d heads do not divide Dim %d: want a divisor of Dim, or HeadDim", c.Heads, c.Dim)
	case c.HeadDim < 2 || c.HeadDim%2 != 0:
		return fmt.Errorf("llama: HeadDim is %d, want an even number of at least 2, for rotary positions", c.HeadDim)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("llama: KVHeads is %d, want a divisor of %d heads", c.KVHeads, c.Heads)
	case !(c.RopeTheta > 1) || math.IsInf(c.RopeTheta, 1):
		return fmt.Errorf("llama: RopeTheta is %v, want more than 1 (0: 10000)", c.RopeTheta)
	case c.Parts.Count < 0:
		return fmt.Errorf("llama: %d parts of each layer: want 1 or more", c.Parts.Count)
	}
	whole := []field{{"Heads", c.Heads}, {"FeedForward", c.FeedForward}, {"Vocab", c.Vocab}}
	if c.Parts.Sequence {
		whole = append(whole, field{"SeqLen", c.SeqLen})
	}
	for _, f := range whole {
		if f.value%max(c.Parts.Count, 1) != 0 {
			return fmt.Errorf("llama: %d parts do not divide %s %d: want a divisor", c.Parts.Count, f.name, f.value)
		}
	}
	if t := max(c.Parts.Count, 1); c.KVHeads%t != 0 && t%c.KVHeads != 0 {
		return fmt.Errorf("llama: %d parts and KVHeads %d: want a divisor or a multiple", t, c.KVHeads)
	}
	return nil
}

// field is one of a configuration's sizes.
type field struct {
	name  string
	value int
}

// part returns the sizes of one of the devices that divide each layer, of which each has at least
// one head of keys.
func (c Config) part() Config {
	parts := max(c.Parts.Count, 1)
	c.Heads, c.KVHeads, c.FeedForward, c.Vocab = c.Heads/parts, max(c.KVHeads/parts, 1), c.FeedForward/parts, c.Vocab/parts
	return c
}

// New builds a network: layers "embedding", "layer1", "layer2", ... and "softmax". Its inputs are
// token ids (n, t) int32; its outputs are the logits (n, t, vocab) of each position's next token.
// Matrices start from normal numbers of deviation Dim^-0.5.
func New(c Config) ([]nn.Layer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults().part()
	table := &nn.Param{
		Name: "table", Published: "model.embed_tokens.weight", Shape: graph.Shape{c.Vocab, c.Dim}, Init: c.init(),
	}
	embedding := nn.Func("embedding", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		nn.WantTuple("embedding", "", in, 1)
		return []*graph.Node{t.Embed(t.Param(table), in[0], nil, 1)}
	}, table)
	layers := []nn.Layer{nn.DividedEmbedding(c.Parts, embedding)}
	angles := nn.NewRotaryAngles("angles", c.RopeTheta, c.SeqLen, c.HeadDim)
	for i := range c.Layers {
		layers = append(layers, newLayer(i, c, angles)...)
	}
	softmax := nn.SoftmaxConfig{Vocab: c.Vocab, Dim: c.Dim, NoBias: true}
	if c.Tied {
		softmax.Tied = table
	}
	norm, weight := c.norm("norm"), nn.NewSoftmax("", softmax)
	norm.Gamma.Published = "model.norm.weight"
	if !c.Tied {
		weight.Weight.Published = "lm_head.weight"
	}
	return append(layers, nn.Sequential("softmax", norm, nn.DividedSoftmax(c.Parts, weight))), nil
}

// published are the names of a layer's parameters in published files, after the layer's own.
var published = map[string]string{
	"norm1/gamma":             "input_layernorm.weight",
	"attention/q/weight":      "self_attn.q_proj.weight",
	"attention/k/weight":      "self_attn.k_proj.weight",
	"attention/v/weight":      "self_attn.v_proj.weight",
	"attention/out/weight":    "self_attn.o_proj.weight",
	"norm2/gamma":             "post_attention_layernorm.weight",
	"feedforward/gate/weight": "mlp.gate_proj.weight",
	"feedforward/up/weight":   "mlp.up_proj.weight",
	"feedforward/down/weight": "mlp.down_proj.weight",
}

// newLayer makes layer i, which counts from 0,
//
//	x = x + attention(norm1(x))
//	x = x + feedforward(norm2(x))
//
// as one pipeline layer or, if fine, as two.
func newLayer(i int, c Config, angles *nn.Param) []nn.Layer {
	half := func(norm string, l nn.Layer) nn.Layer { return residual(c.norm(norm), nn.Divided(c.Parts, l)) }
	attention := half("norm1", nn.NewGroupedAttention("attention", nn.GroupedAttentionConfig{
		Dim: c.Dim, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Causal: true, Angles: angles, Init: c.init(),
	}))
	feedForward := half("norm2", nn.NewGatedFeedForward("feedforward", nn.GatedFeedForwardConfig{
		Dim: c.Dim, Hidden: c.FeedForward, Init: c.init(),
	}))
	for _, p := range nn.ParamsOf(attention, feedForward) {
		if !p.Frozen {
			p.Published = fmt.Sprintf("model.layers.%d.%s", i, published[p.Name])
		}
	}
	return nn.Cut(c.Fine, fmt.Sprintf("layer%d", i+1), attention, feedForward)
}

// residual makes one residual branch, x + branch(norm(x)), with the branch's name.
func residual(norm *nn.RMSNorm, branch nn.Layer) nn.Layer {
	return nn.Func(branch.Name(), func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		nn.WantTuple("residual", "", in, 1)
		h := branch.Forward(t, norm.Forward(t, in[0])...)
		return []*graph.Node{t.Add(in[0], h[0])}
	}, nn.ParamsOf(norm, branch)...)
}

func (c Config) norm(name string) *nn.RMSNorm {
	return nn.NewRMSNorm(name, nn.RMSNormConfig{Dim: c.Dim, Eps: 1e-5})
}

func (c Config) init() nn.Initializer { return nn.Normal(1 / math.Sqrt(float64(c.Dim))) }
