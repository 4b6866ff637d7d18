package nn

import (
	"path"

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
	l = &LayerNorm{named: named{name: name}}
	defer l.keep()
	wantPositive("layer norm", name, "Dim", c.Dim)
	if c.Eps == 0 {
		c.Eps = 1e-5
	}
	if !(c.Eps > 0) {
		misuse("layer norm", name, "Eps is %v, want more than 0", c.Eps)
	}
	shape := graph.Shape{c.Dim}
	return &LayerNorm{
		Gamma:  &Param{Name: path.Join(name, "gamma"), Shape: shape, Init: Ones(), NoDecay: true},
		Beta:   &Param{Name: path.Join(name, "beta"), Shape: shape, Init: Zeros(), NoDecay: true},
		named:  named{name: name},
		config: c,
	}
}

func (n *LayerNorm) Params() []*Param {
	n.fit()
	return []*Param{n.Gamma, n.Beta}
}

// Forward takes x (..., dim) and returns the same shape.
func (n *LayerNorm) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("layer norm", n.name, in, 1)
	wantWidth("layer norm", n.name, in[0], n.config.Dim)
	return []*graph.Node{t.LayerNorm(in[0], t.Param(n.Gamma), t.Param(n.Beta), n.config.Eps)}
}
