package nn

import "gpipebench/nn/graph"

// DropPath zeroes a whole branch for examples chosen at random in training, and
// scales it up for the others (Larsson et al. 2016). Which examples is a
// function of the seed, the step, the path within the network and the example's
// index in the mini-batch.
type DropPath struct {
	named
	rate float32
	over int
}

// NewDropPath returns a drop-path of the given rate, in [0, 1); with 0 it does
// nothing. The name is the key of its random numbers, as for a dropout.
func NewDropPath(name string, rate float32) (l *DropPath) {
	l = &DropPath{named: named{name: name}, rate: rate}
	defer l.keep()
	wantRate("drop-path", name, rate)
	return l
}

// Rising returns a drop-path whose rate rises from 0, by the same amount at each
// step, and has its value after a number of steps, as in NASNet's training (Zoph et
// al. 2018); 0: it has its value at all steps.
func (d *DropPath) Rising(steps int) (l *DropPath) {
	l = &DropPath{named: named{name: d.name}}
	defer l.keep()
	if steps < 0 {
		misuse("drop-path", d.name, "a rise over %d steps, want at least 0", steps)
	}
	return &DropPath{d.named, d.rate, steps}
}

// Forward takes one tensor whose first dimension is the examples.
func (d *DropPath) Forward(t *Trace, in ...*graph.Node) []*graph.Node {
	d.fit()
	WantTuple("drop-path", d.name, in, 1)
	if !t.Train || d.rate == 0 {
		return in
	}
	return []*graph.Node{t.DropPath(in[0], d.rate, d.over, t.Path(d.name))}
}
