package nn

import (
	"fmt"

	"gpipebench/nn/graph"
)

// misuse panics in the one form that the package promises for a programmer's
// mistake: with a [*graph.Misuse] that names the kind of layer and its name.
func misuse(kind, name, format string, args ...any) {
	of := "nn: " + kind
	if name != "" { // a part may have none: it is its pipeline layer
		of += fmt.Sprintf(" %q", name)
	}
	graph.Refuse(of, format, args...)
}

// WantTuple panics with a [*graph.Misuse] unless n tensors flow into a layer.
func WantTuple(kind, name string, in []*graph.Node, n int) {
	if len(in) != n {
		misuse(kind, name, "%d tensors come in, want %d", len(in), n)
	}
}

// wantLengths is WantTuple for a layer after whose n tensors come, if it is padded,
// lengths. It returns these, or nil.
func wantLengths(kind, name string, in []*graph.Node, n int, padded bool) *graph.Node {
	if !padded {
		WantTuple(kind, name, in, n)
		return nil
	}
	WantTuple(kind, name, in, n+1)
	return in[n]
}

// wantPositive checks a size of a layer's configuration.
func wantPositive(kind, name, field string, n int) {
	if n < 1 {
		misuse(kind, name, "%s is %d, want at least 1", field, n)
	}
}

// wantEps checks what is added inside a root.
func wantEps(kind, name string, eps float32) {
	if !(eps > 0) {
		misuse(kind, name, "Eps is %v, want more than 0", eps)
	}
}

// wantRate checks the share of what a dropout zeroes.
func wantRate(kind, name string, rate float32) {
	if !(rate >= 0 && rate < 1) {
		misuse(kind, name, "rate is %v, want at least 0 and less than 1", rate)
	}
}

// wantWidth checks the last dimension of a layer's input.
func wantWidth(kind, name string, x *graph.Node, n int) {
	switch {
	case len(x.Shape) < 2:
		misuse(kind, name, "%s comes in, want rows of %d", x, n)
	case x.Shape.Last() != n:
		misuse(kind, name, "%s comes in with rows of %d, want rows of %d", x, x.Shape.Last(), n)
	}
}
