package nn

import (
	"fmt"

	"gpipebench/nn/graph"
)

// Activation is the non-linearity that a dense layer applies after its bias.
type Activation uint8

const (
	Linear Activation = iota // none
	ReLU                     // max(x, 0)
	GELU                     // the tanh form, see graph.GELUOp
)

func (a Activation) String() string {
	if int(a) < len(activationNames) {
		return activationNames[a]
	}
	return fmt.Sprintf("Activation(%d)", uint8(a))
}

var activationNames = [...]string{"linear", "relu", "gelu"}

// valid reports whether a is one of the constants above.
func (a Activation) valid() bool { return int(a) < len(activationNames) }

func (a Activation) apply(t *Trace, x *graph.Node) *graph.Node {
	switch a {
	case ReLU:
		return t.ReLU(x)
	case GELU:
		return t.GELU(x)
	}
	return x
}
