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
	if a.valid() {
		return activations[a].name
	}
	return fmt.Sprintf("Activation(%d)", uint8(a))
}

// valid reports whether a is one of the constants above.
func (a Activation) valid() bool { return int(a) < len(activations) }

var activations = [...]struct {
	name  string
	apply func(t *Trace, x *graph.Node) *graph.Node
}{
	{"linear", func(_ *Trace, x *graph.Node) *graph.Node { return x }},
	{"relu", (*Trace).ReLU},
	{"gelu", (*Trace).GELU},
	{"sigmoid", (*Trace).Sigmoid},
	{"tanh", (*Trace).Tanh},
	{"softplus", func(t *Trace, x *graph.Node) *graph.Node { return t.Map(softplus, x) }},
}

// softplus does not overflow for large x.
var softplus = graph.Elementwise{
	Name:       "softplus",
	F:          func(x float64) float64 { return max(x, 0) + exactmath.Log1p(exactmath.Exp(-math.Abs(x))) },
	Derivative: func(x float64) float64 { return 1 / (1 + exactmath.Exp(-x)) },
}
