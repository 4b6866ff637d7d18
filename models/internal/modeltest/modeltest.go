// Package modeltest has what the tests of several models share.
package modeltest

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/trace"
)

// Build builds a model of a configuration that is valid.
func Build[C any](t *testing.T, build func(C) ([]nn.Layer, error), c C) []nn.Layer {
	t.Helper()
	return testkit.Must(build(c))(t)
}

// Trace traces a whole model for a number of images.
func Trace(layers []nn.Layer, size, channels, images int, train bool) *trace.Stage {
	of := graph.Type{Shape: graph.Shape{images, size, size, channels}, DType: graph.F32}
	return trace.Layers(layers, 0, nil, []graph.Type{of}, nil, train)
}

// Flow lists each layer's name with the shapes of what it passes on.
func Flow(layers []nn.Layer, s *trace.Stage) (lines []string) {
	for i, out := range s.LayerOut {
		line := layers[i].Name()
		for _, n := range out {
			line += " " + n.Shape.String()
		}
		lines = append(lines, line)
	}
	return lines
}

// FLOPs counts a trace's floating-point operations.
func FLOPs(s *trace.Stage) (sum int64) {
	for _, call := range s.Function.Graph.Calls {
		sum += call.FLOPs()
	}
	return sum
}

// Refuses checks that a configuration is accepted, and with each change refused for the
// reason that is the change's key.
func Refuses[C any](t *testing.T, good C, build func(C) ([]nn.Layer, error), changes map[string]func(*C)) {
	t.Helper()
	testkit.Must(build(good))(t)
	for want, change := range changes {
		c := good
		change(&c)
		testkit.Refused(build(c))(t, want)
	}
}

// Gains checks that batch norms' gains start from 0 if their names end in zeroed, "" for none,
// and from 1 otherwise.
func Gains(t *testing.T, layers []nn.Layer, zeroed string) {
	t.Helper()
	seen := false
	for _, l := range layers {
		for _, p := range l.Params() {
			if !strings.HasSuffix(p.Name, "gamma") {
				continue
			}
			gamma, want := make([]float32, p.Shape.Elems()), float32(1)
			p.Init(nil, p.Shape, gamma)
			if zeroed != "" && strings.HasSuffix(p.Name, zeroed) {
				want, seen = 0, true
			}
			testkit.Equal(t, gamma[0], want, "%s/%s starts from", l.Name(), p.Name)
		}
	}
	if zeroed != "" && !seen {
		t.Errorf("no gain ends in %s", zeroed)
	}
}
