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

// FeedForward is two dense layers with an activation between them, applied to
// every position (Vaswani et al. 2017, section 3.3).
type FeedForward struct {
	name    string
	in, out *Dense
}

// NewFeedForward returns a feed-forward layer. Its parameters are weight and
// bias of name/in and name/out.
func NewFeedForward(name string, c FeedForwardConfig) *FeedForward {
	wantPositive("feed-forward", name, "Dim", c.Dim)
	wantPositive("feed-forward", name, "Hidden", c.Hidden)
	if c.Activation == Linear {
		c.Activation = ReLU
	}
	init := orInit(c.Init, GlorotUniform())
	if c.ScaleLayers != 0 {
		init = DepthScaled(init, c.ScaleLayers)
	}
	return &FeedForward{
		name: name,
		in:   NewDense(path.Join(name, "in"), DenseConfig{In: c.Dim, Out: c.Hidden, Activation: c.Activation, Init: init}),
		out:  NewDense(path.Join(name, "out"), DenseConfig{In: c.Hidden, Out: c.Dim, Init: init}),
	}
}

func (f *FeedForward) Name() string { return f.name }

func (f *FeedForward) Params() []*Param { return paramsOf(f.in, f.out) }

// Forward takes x (..., dim) and returns the same shape.
func (f *FeedForward) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("feed-forward", f.name, in, 1)
	return f.out.Forward(t, f.in.Forward(t, in[0])...)
}
