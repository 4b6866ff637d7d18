package trace_test

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/trace"
)

// An operation of a caller counts by its name, and a shape by its dimensions: the
// same network, built again, has the same fingerprint, and any change another.
func TestFingerprintOfOwnOps(t *testing.T) {
	of := func(scalar, general string, dims ...int) string {
		double := func(x float64) float64 { return 2 * x }
		layer := nn.Func("own", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			x := t.Map(graph.Elementwise{Name: scalar, F: double, Derivative: double}, t.Reshape(in[0], dims...))
			return t.Compute(graph.Function{
				Name:  general,
				Types: func(in []graph.Type) ([]graph.Type, error) { return in, nil },
				Run:   func(out, in []graph.Tensor) { copy(out[0].F32, in[0].F32) },
			}, x)
		})
		return trace.Fingerprint([]nn.Layer{layer}, []graph.Type{{Shape: graph.Shape{2, 3, 4}, DType: graph.F32}})
	}
	want := of("double", "same", 6, 2)
	testkit.Equal(t, of("double", "same", 6, 2), want, "the same network has another fingerprint")
	for what, got := range map[string]string{
		"another function":       of("double it", "same", 6, 2),
		"another general op":     of("double", "the same", 6, 2),
		"another shape":          of("double", "same", 2, 6),
		"another number of axes": of("double", "same", 12),
	} {
		if got == want {
			t.Errorf("%s has the same fingerprint", what)
		}
	}
}
