package transformer

import (
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// newLayer makes one pre-norm Transformer layer,
//
//	x = x + dropout(attention(norm1(x)))
//	x = x + dropout(feedforward(norm2(x)))
//
// as one pipeline layer or, if fine, as two.
func newLayer(name string, c Config) []nn.Layer {
	if c.Fine {
		return []nn.Layer{
			nn.Part(name, name+"/attention", newAttention(c)),
			nn.Part(name, name+"/feedforward", newFeedForward(c)),
		}
	}
	return []nn.Layer{nn.Sequential(name, newAttention(c), newFeedForward(c))}
}

// attention is the first half of a layer.
type attention struct {
	norm1     *nn.LayerNorm
	attention *nn.Attention
	dropout   *nn.Dropout
}

func newAttention(c Config) *attention {
	return &attention{
		norm1:     nn.NewLayerNorm("norm1", nn.LayerNormConfig{Dim: c.Dim}),
		attention: nn.NewAttention("attention", nn.AttentionConfig{Dim: c.Dim, Heads: c.Heads, Causal: true}),
		dropout:   nn.NewDropout("attention/dropout", c.Dropout),
	}
}

func (a *attention) Name() string { return "" } // its parts have names

func (a *attention) Params() []*nn.Param {
	return append(a.norm1.Params(), a.attention.Params()...)
}

// Forward takes x (n, t, dim) and returns x + dropout(attention(norm1(x))).
func (a *attention) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	h := a.norm1.Forward(t, in[0])
	h = a.attention.Forward(t, h...)
	h = a.dropout.Forward(t, h...)
	return []*graph.Node{t.Add(in[0], h[0])}
}

// feedForward is the second half of a layer.
type feedForward struct {
	norm2       *nn.LayerNorm
	feedforward *nn.FeedForward
	dropout     *nn.Dropout
}

func newFeedForward(c Config) *feedForward {
	f := nn.FeedForwardConfig{Dim: c.Dim, Hidden: c.FeedForward, Activation: c.Activation}
	if c.ScaledInit {
		f.ScaleLayers = c.Layers
	}
	return &feedForward{
		norm2:       nn.NewLayerNorm("norm2", nn.LayerNormConfig{Dim: c.Dim}),
		feedforward: nn.NewFeedForward("feedforward", f),
		dropout:     nn.NewDropout("feedforward/dropout", c.Dropout),
	}
}

func (f *feedForward) Name() string { return "" } // its parts have names

func (f *feedForward) Params() []*nn.Param {
	return append(f.norm2.Params(), f.feedforward.Params()...)
}

// Forward takes x (n, t, dim) and returns x + dropout(feedforward(norm2(x))).
func (f *feedForward) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	h := f.norm2.Forward(t, in[0])
	h = f.feedforward.Forward(t, h...)
	h = f.dropout.Forward(t, h...)
	return []*graph.Node{t.Add(in[0], h[0])}
}
