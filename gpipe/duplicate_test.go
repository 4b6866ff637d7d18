package gpipe

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// twice returns its output in two places of the tuple, as a network does that
// starts from the same state twice; both uses the two.
type twice struct{ nn.Layer }

func (l twice) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	x := l.Layer.Forward(t, in...)[0]
	return []*graph.Node{x, x}
}

type both struct{ nn.Layer }

func (l both) Forward(t *nn.Trace, in ...*graph.Node) []*graph.Node {
	a := l.Layer.Forward(t, in[0])[0]
	return l.Layer.Forward(t, t.Mul(t.Add(a, in[1]), in[1]))
}

// A value that leaves a layer twice has the same gradient wherever the network
// is cut (the arithmetic contract, rule 3).
func TestSameValueTwice(t *testing.T) {
	p := small.pipeline(t)
	p.Layers[2], p.Layers[3] = twice{p.Layers[2]}, both{p.Layers[3]}
	want := small.train(t, p)
	for _, balance := range [][]int{{3, 5}, {2, 6}, {4, 4}, {1, 1, 1, 1, 1, 1, 1, 1}} {
		p.Partitions, p.Balance = len(balance), balance
		testkit.Equal(t, small.train(t, p), want, "balance %v", balance)
	}
}
