package nn

import (
	"cmp"

	"gpipebench/nn/graph"
)

// RMSNormConfig describes a normalisation by the root mean square.
type RMSNormConfig struct {
	Dim int     // width of the rows, at least 1
	Eps float32 // added to the mean square, inside the root; 0: 1e-5
}

// RMSNorm divides each row by its root mean square and applies a gain per column (Zhang and
// Sennrich 2019). Unlike a [LayerNorm] it subtracts no mean and adds no offset.
type RMSNorm struct {
	Gamma *Param // (dim)

	named
	config RMSNormConfig
}

// NewRMSNorm returns such a normalisation. Its parameter is name/gamma, which starts from one.
func NewRMSNorm(name string, c RMSNormConfig) (l *RMSNorm) {
	c.Eps = cmp.Or(c.Eps, 1e-5)
	l = &RMSNorm{named: named{name: name}, config: c}
	defer l.keep()
	wantPositive("RMS norm", name, "Dim", c.Dim)
	wantEps("RMS norm", name, c.Eps)
	l.Gamma = l.own("gamma", Param{Shape: graph.Shape{c.Dim}, Init: Ones(), NoDecay: true})
	return l
}

// Forward takes x (..., dim) and returns the same shape.
func (n *RMSNorm) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("RMS norm", n.name, in, 1)
	wantWidth("RMS norm", n.name, in[0], n.config.Dim)
	return []*graph.Node{t.RMSNorm(in[0], t.Param(n.Gamma), n.config.Eps)}
}
