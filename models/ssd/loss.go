package ssd

import (
	"gpipebench/nn"
	"gpipebench/nn/graph"
)

// Loss trains a detector on images that have one label and no boxes, as data sets of
// images here do. It is the cross-entropy of the scores' mean over all default boxes,
// plus half the mean square of the offsets: every box is asked for the image's class,
// and to stay where it is. So all parameters learn, at about the cost of the detector's
// own loss, whose matching of boxes and mining of hard negatives (Liu et al., section
// 2.2) it does not have.
type Loss struct {
	nn.CrossEntropy
}

// Loss takes scores (n, boxes, classes) and offsets (n, boxes, 4), and a label (n). It
// returns the loss of each example; hits and ranks come from the mean scores.
func (l Loss) Loss(t *nn.Trace, out, targets []*graph.Node) []*graph.Node {
	nn.WantTuple("ssd", "loss", out, 2)
	result := l.CrossEntropy.Loss(t, []*graph.Node{t.Mean(out[0], 1)}, targets)
	if t.Train { // an evaluation's loss covers the targets alone
		still := t.EndLoss(t.Scale(t.Mean(t.Mul(out[1], out[1])), 0.5))
		result[0] = t.Add(result[0], still)
	}
	return result
}
