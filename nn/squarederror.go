package nn

import "gpipebench/nn/graph"

// MeanSquaredError is the loss of a regression: the square of the difference
// between output and target, averaged over the elements of each example. With a
// batch's Count of its examples, the step's loss is the mean over them.
type MeanSquaredError struct{}

// Loss takes one tensor (n, ...) and a float32 target of the same shape, and
// returns the loss of each example.
func (MeanSquaredError) Loss(t *Trace, out, targets []*graph.Node) []*graph.Node {
	WantTuple("mean squared error", "loss", out, 1)
	WantTuple("mean squared error", "loss", targets, 1)
	d := t.Sub(out[0], targets[0])
	return []*graph.Node{t.EndLoss(t.Mean(t.Mul(d, d)))}
}
