package transformer

import "gpipebench/nn"

// newLayer makes one pre-norm Transformer layer,
//
//	x = x + dropout(attention(norm1(x)))
//	x = x + dropout(feedforward(norm2(x)))
//
// as one pipeline layer or, if fine, as two.
func newLayer(name string, c Config) []nn.Layer {
	parts := max(c.Parts.Count, 1)
	f := nn.FeedForwardConfig{Dim: c.Dim, Hidden: c.FeedForward / parts, Activation: c.Activation}
	if c.ScaledInit {
		f.ScaleLayers = c.Layers
	}
	half := func(norm, branch string, l nn.Layer) nn.Layer {
		return residual(0, nn.NewLayerNorm(norm, nn.LayerNormConfig{Dim: c.Dim}), nn.Divided(c.Parts, l), nn.NewDropout(branch+"/dropout", c.Dropout))
	}
	attention := half("norm1", "attention", nn.NewAttention("attention", nn.AttentionConfig{Dim: c.Dim, Heads: c.Heads / parts, HeadDim: c.Dim / c.Heads, Causal: true}))
	feedForward := half("norm2", "feedforward", nn.NewFeedForward("feedforward", f))
	return nn.Cut(c.Fine, name, attention, feedForward)
}
