package nn

import (
	"fmt"
	"math"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn/graph"
)

// Activation is a non-linearity that is applied element by element: by a dense
// layer after its bias, or by a layer of its own (NewActivation).
type Activation uint8

const (
	Linear   Activation = iota // none
	ReLU                       // max(x, 0)
	GELU                       // the tanh form, see op.GELU
	Sigmoid                    // 1/(1 + exp(-x))
	Tanh                       // the hyperbolic tangent
	Softplus                   // log(1 + exp(x))
)

func (a Activation) String() string {
	if int(a) < len(activationNames) {
		return activationNames[a]
	}
	return fmt.Sprintf("Activation(%d)", uint8(a))
}

var activationNames = [...]string{"linear", "relu", "gelu", "sigmoid", "tanh", "softplus"}

// valid reports whether a is one of the constants above.
func (a Activation) valid() bool { return int(a) < len(activationNames) }

func (a Activation) apply(t *Trace, x *graph.Node) *graph.Node {
	switch a {
	case ReLU:
		return t.ReLU(x)
	case GELU:
		return t.GELU(x)
	case Sigmoid:
		return t.Sigmoid(x)
	case Tanh:
		return t.Tanh(x)
	case Softplus:
		return t.Map(softplus, x)
	}
	return x
}

// softplus does not overflow for large x.
var softplus = graph.Elementwise{
	Name:       "softplus",
	F:          func(x float64) float64 { return max(x, 0) + exactmath.Log1p(exactmath.Exp(-math.Abs(x))) },
	Derivative: func(x float64) float64 { return 1 / (1 + exactmath.Exp(-x)) },
}
