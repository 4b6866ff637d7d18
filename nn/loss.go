package nn

import "gpipebench/nn/graph"

// CrossEntropy is softmax cross-entropy, the loss of every model here.
type CrossEntropy struct {
	// Smoothing moves this share of the target's probability to all classes
	// evenly, the target included (Szegedy et al. 2016, section 7); in [0, 1),
	// 0: none. It is a way to train: an evaluation's loss is without it, so that
	// it is the target's own nats, as perplexities, bits and yardsticks are.
	Smoothing float32
	// Ranks adds a third output, by which top-5 accuracies are found: how many
	// classes come before each row's target, by their logits and among equal
	// ones by their number; -1 where masked.
	Ranks bool
}

// Loss takes logits (..., classes) and one int32 target a row, masked where
// negative. It gives each row's loss, 0 where masked, and 1 for each row whose
// target had the highest logit.
func (c CrossEntropy) Loss(t *Trace, out, targets []*graph.Node) []*graph.Node {
	WantTuple("cross-entropy", "loss", out, 1)
	WantTuple("cross-entropy", "loss", targets, 1)
	smoothing := c.Smoothing
	if !t.Train {
		smoothing = 0
	}
	if c.Ranks {
		loss, correct, ranks := t.CrossEntropyRanks(out[0], targets[0], smoothing)
		return []*graph.Node{loss, correct, ranks}
	}
	loss, correct := t.CrossEntropy(out[0], targets[0], smoothing)
	return []*graph.Node{loss, correct}
}
