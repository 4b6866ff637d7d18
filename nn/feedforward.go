package nn

import (
	"path"

	"gpipebench/nn/graph"
)

// FeedForwardConfig describes a Transformer's feed-forward layer.
type FeedForwardConfig struct {
	Dim        int         // width of the model, at least 1
	Hidden     int         // width between the two layers, at least 1
	Activation Activation  // ReLU or GELU; zero: ReLU
	Init       Initializer // of both weights; nil: GlorotUniform
	// ScaleLayers is the number of Transformer layers by which the initial
	// values of both weights are scaled down, see [DepthScaled]; 0: they are
	// not.
	ScaleLayers int
}

// NewFeedForward returns two dense layers with an activation between them, applied to
// every position of x (..., dim) (Vaswani et al. 2017, section 3.3). Its parameters are
// weight and bias of name/in and name/out.
func NewFeedForward(name string, c FeedForwardConfig) (l Layer) {
	defer refused(&l, name)
	wantPositive("feed-forward", name, "Dim", c.Dim)
	wantPositive("feed-forward", name, "Hidden", c.Hidden)
	if c.Activation == Linear {
		c.Activation = ReLU
	}
	init := orInit(c.Init, GlorotUniform())
	if c.ScaleLayers != 0 {
		init = DepthScaled(init, c.ScaleLayers)
	}
	first := NewDense(path.Join(name, "in"), DenseConfig{In: c.Dim, Out: c.Hidden, Activation: c.Activation, Init: init})
	second := NewDense(path.Join(name, "out"), DenseConfig{In: c.Hidden, Out: c.Dim, Init: init})
	return Func(name, func(t *Trace, in ...*graph.Node) []*graph.Node {
		WantTuple("feed-forward", name, in, 1)
		return second.Forward(t, first.Forward(t, in[0])...)
	}, ParamsOf(first, second)...)
}
