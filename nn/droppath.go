package nn

import "gpipebench/nn/graph"

// DropPath leaves a branch out for an example, at random while training, and
// scales it up for the others (Larsson et al. 2016). Which examples is a
// function of the seed, the step, the path within the network and the
// example's index in the mini-batch.
type DropPath struct {
	name string
	rate float32
}

// NewDropPath returns a drop-path of the given rate, in [0, 1); 0 does nothing.
// The name is the key of its random numbers, as a dropout's is.
func NewDropPath(name string, rate float32) *DropPath {
	if !(rate >= 0 && rate < 1) {
		misuse("drop-path", name, "rate is %v, want at least 0 and less than 1", rate)
	}
	return &DropPath{name, rate}
}

func (d *DropPath) Name() string { return d.name }

func (d *DropPath) Params() []*Param { return nil }

// Forward takes one tensor whose first dimension is the examples.
func (d *DropPath) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	WantTuple("drop-path", d.name, in, 1)
	if !t.Train || d.rate == 0 {
		return in
	}
	return []*graph.Node{t.DropPath(in[0], d.rate, t.Path(d.name))}
}
