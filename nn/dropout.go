package nn

import "gpipebench/nn/graph"

// Dropout zeroes elements at random in training and scales the others up, so
// that the expectation stays the same (Srivastava et al. 2014).
//
// Which elements are zeroed is a function of the seed, the step, the path
// within the network, the example's index in the mini-batch and the element's
// index in the example: the same for every K, M and recomputation.
type Dropout struct {
	named
	rate float32
}

// NewDropout returns a dropout of the given rate, in [0, 1); with 0 it does
// nothing. The name is the key of its random numbers: two dropouts of one
// pipeline layer must not share it.
func NewDropout(name string, rate float32) (l *Dropout) {
	l = &Dropout{named: named{name: name}, rate: rate}
	defer l.keep()
	wantRate("dropout", name, rate)
	return l
}

// Forward takes one tensor of any shape.
func (d *Dropout) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	d.fit()
	WantTuple("dropout", d.name, in, 1)
	if !t.Train || d.rate == 0 {
		return in
	}
	return []*graph.Node{t.Dropout(in[0], d.rate, t.Path(d.name))}
}
