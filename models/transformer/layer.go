package transformer

import (
	"path"

	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// newLayer makes one pre-norm Transformer layer,
//
//	x = x + dropout(attention(norm1(x)))
//	x = x + dropout(feedforward(norm2(x)))
//
// as one pipeline layer or, fine, as two.
//
// The halves meet in a pair, x and norm2(x). Norm2 belongs to the first half
// because a parameter's path starts with its pipeline layer's name: the second
// half needs a name of its own, layer1/feedforward, which can be that of
// layer1/feedforward/in/weight in either cut but not of layer1/norm2/gamma.
func newLayer(name string, c Config) []nn.Layer {
	if c.Fine {
		return []nn.Layer{
			nn.Sequential(name, newAttention(c)),
			nn.Sequential(name+"/feedforward", newFeedForward("", c)),
		}
	}
	return []nn.Layer{nn.Sequential(name, newAttention(c), newFeedForward("feedforward", c))}
}

// attention is the first half of a layer.
type attention struct {
	norm1, norm2 *nn.LayerNorm
	attention    *nn.Attention
	dropout      *nn.Dropout
}

func newAttention(c Config) *attention {
	return &attention{
		norm1:     nn.NewLayerNorm("norm1", nn.LayerNormConfig{Dim: c.Dim}),
		attention: nn.NewAttention("attention", nn.AttentionConfig{Dim: c.Dim, Heads: c.Heads, Causal: true}),
		dropout:   nn.NewDropout("attention/dropout", c.Dropout),
		norm2:     nn.NewLayerNorm("norm2", nn.LayerNormConfig{Dim: c.Dim}),
	}
}

func (a *attention) Name() string { return "" } // its parts have names

func (a *attention) Params() []*nn.Param {
	return append(append(a.norm1.Params(), a.attention.Params()...), a.norm2.Params()...)
}

// Forward takes x (n, t, dim) and gives x + dropout(attention(norm1(x))) and
// the norm2 of that.
func (a *attention) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	x := in[0]
	h := a.norm1.Forward(t, x)
	h = a.attention.Forward(t, h...)
	h = a.dropout.Forward(t, h...)
	x = t.Add(x, h[0])
	h = a.norm2.Forward(t, x)
	return []*graph.Node{x, h[0]}
}

// feedForward is the second half of a layer.
type feedForward struct {
	*nn.FeedForward
	dropout *nn.Dropout
}

// newFeedForward takes its name within the pipeline layer.
func newFeedForward(name string, c Config) *feedForward {
	f := nn.FeedForwardConfig{Dim: c.Dim, Hidden: c.FeedForward, Activation: c.Activation}
	if c.ScaledInit {
		f.ScaleLayers = c.Layers
	}
	return &feedForward{nn.NewFeedForward(name, f), nn.NewDropout(path.Join(name, "dropout"), c.Dropout)}
}

// Forward takes x and norm2(x) and gives x + dropout(feedforward(norm2(x))).
func (f *feedForward) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	h := f.FeedForward.Forward(t, in[1])
	h = f.dropout.Forward(t, h...)
	return []*graph.Node{t.Add(in[0], h[0])}
}
