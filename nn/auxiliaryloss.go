package nn

import (
	"cmp"

	"gpipebench/nn/graph"
)

// AuxiliaryLoss is the cross-entropy of a network's logits and, times a weight,
// that of the logits of its auxiliary heads (Szegedy et al. 2015, section 5).
type AuxiliaryLoss struct {
	CrossEntropy
	Weight float32 // of each auxiliary head, more than 0; 0: 0.4, as for AmoebaNet
}

// Loss takes the logits followed by those of the auxiliary heads (none in
// evaluation). It returns each row's total loss; the hits and ranks belong
// to the logits alone.
func (a AuxiliaryLoss) Loss(t *Trace, out, targets []*graph.Node) []*graph.Node {
	if len(out) == 0 {
		misuse("auxiliary loss", "loss", "no logits come in")
	}
	weight := cmp.Or(a.Weight, 0.4)
	if !(weight > 0) {
		misuse("auxiliary loss", "loss", "Weight is %v, want more than 0", a.Weight)
	}
	result := a.CrossEntropy.Loss(t, out[:1], targets)
	for _, logits := range out[1:] {
		result[0] = t.Add(result[0], t.WeightedCrossEntropy(logits, targets[0], a.Smoothing, weight))
	}
	return result
}
