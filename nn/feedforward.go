package nn

import (
	"path"

	"gpipebench/nn/graph"
)

// FeedForwardConfig describes a Transformer's feed-forward layer.
type FeedForwardConfig struct {
	Dim        int         // width of the model, at least 1
	Hidden     int         // width between the two layers, at least 1
	Activation Activation  // zero: ReLU
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
	first := NewDense(path.Join(name, "in"), DenseConfig{In: c.Dim, Out: c.Hidden, Activation: c.Activation, Init: init}).byColumns(1, c.Hidden)
	second := NewDense(path.Join(name, "out"), DenseConfig{In: c.Hidden, Out: c.Dim, Init: init}).byRows(c.Hidden)
	return Func(name, func(t *Trace, in ...*graph.Node) []*graph.Node {
		WantTuple("feed-forward", name, in, 1)
		return second.Forward(t, first.Forward(t, in[0])...)
	}, ParamsOf(first, second)...)
}

// GatedFeedForwardConfig describes a feed-forward layer with a gate.
type GatedFeedForwardConfig struct {
	Dim    int         // width of the model, at least 1
	Hidden int         // width of the gate and of what it lets pass, at least 1
	Init   Initializer // of the weights; nil: GlorotUniform
}

// NewGatedFeedForward returns the feed-forward layer down(x' σ(x') u) with x' = gate(x) and u = up(x),
// called SwiGLU (Shazeer 2020, section 2), applied to every position of x (..., dim). Its parameters
// are weights (out, in) without biases: name/gate/weight, name/up/weight and name/down/weight.
func NewGatedFeedForward(name string, c GatedFeedForwardConfig) (l Layer) {
	defer refused(&l, name)
	wantPositive("gated feed-forward", name, "Dim", c.Dim)
	wantPositive("gated feed-forward", name, "Hidden", c.Hidden)
	dense := func(part string, in, out int) *Dense {
		return NewDense(path.Join(name, part), DenseConfig{In: in, Out: out, Transposed: true, NoBias: true, Init: c.Init})
	}
	gate, up, down := dense("gate", c.Dim, c.Hidden).byColumns(1, c.Hidden), dense("up", c.Dim, c.Hidden).byColumns(1, c.Hidden), dense("down", c.Hidden, c.Dim).byRows(c.Hidden)
	return Func(name, func(t *Trace, in ...*graph.Node) []*graph.Node {
		WantTuple("gated feed-forward", name, in, 1)
		return down.Forward(t, t.SwiGLU(gate.Forward(t, in[0])[0], up.Forward(t, in[0])[0]))
	}, ParamsOf(gate, up, down)...)
}
