package nn

import "gpipebench/nn/graph"

// CrossEntropy is softmax cross-entropy, the loss of every model here.
type CrossEntropy struct {
	// Smoothing moves this share of the target's probability to all classes
	// evenly, the target included (Szegedy et al. 2016, section 7); in [0, 1),
	// 0: none. Only training uses it: an evaluation's loss is the target's
	// negative log-likelihood in nats, from which perplexities and bits are
	// computed and with which yardsticks are compared.
	Smoothing float32
	// Ranks adds a third output, from which top-5 accuracy is computed: the
	// number of classes that come before each row's target, by larger logits
	// and among equal ones by smaller class numbers; -1 where masked.
	Ranks bool
}

// Loss takes logits (..., classes) and one int32 target per row, masked where
// negative. It returns each row's loss, 0 where masked, and 1 for each row
// whose target has the highest logit.
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
