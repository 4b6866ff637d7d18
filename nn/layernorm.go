package nn

import (
	"cmp"

	"gpipebench/nn/graph"
)

// LayerNormConfig describes a layer normalisation.
type LayerNormConfig struct {
	Dim int     // width of the rows, at least 1
	Eps float32 // added to the variance, inside the root; 0: 1e-5
}

// LayerNorm normalises each row to mean 0 and variance 1 and applies a gain and
// an offset per column (Ba, Kiros, Hinton 2016). The variance is the biased
// one, divided by the row's width.
type LayerNorm struct {
	Gamma, Beta *Param // (dim)

	named
	config LayerNormConfig
}

// NewLayerNorm returns a layer normalisation. Its parameters are name/gamma and
// name/beta, which start from one and zero.
func NewLayerNorm(name string, c LayerNormConfig) (l *LayerNorm) {
	c.Eps = cmp.Or(c.Eps, 1e-5)
	l = &LayerNorm{named: named{name: name}, config: c}
	defer l.keep()
	wantPositive("layer norm", name, "Dim", c.Dim)
	wantEps("layer norm", name, c.Eps)
	l.Gamma = l.own("gamma", Param{Shape: graph.Shape{c.Dim}, Init: Ones(), NoDecay: true})
	l.Beta = l.own("beta", Param{Shape: graph.Shape{c.Dim}, Init: Zeros(), NoDecay: true})
	return l
}

// Forward takes x (..., dim) and returns the same shape.
func (n *LayerNorm) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("layer norm", n.name, in, 1)
	wantWidth("layer norm", n.name, in[0], n.config.Dim)
	return []*graph.Node{t.LayerNorm(in[0], t.Param(n.Gamma), t.Param(n.Beta), n.config.Eps)}
}
