package gpipe

import (
	"fmt"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// TestEvaluationLoss: what training adds to the loss or the gradient (label
// smoothing, an auxiliary head, L2, clipping) is not in the loss of an
// evaluation, and is in that of a step.
func TestEvaluationLoss(t *testing.T) {
	losses := func(p Pipeline, b nn.Batch) (evaluated, trained string) {
		t.Helper()
		tr := openedForAll(t, p, InputOf(b))
		e := must(tr.Evaluate(t.Context(), b))(t)
		s := stepped(t, tr, b)
		return fmt.Sprint(e.Loss), fmt.Sprint(s.Loss)
	}
	lm := small.pipeline(t)
	lm.Loss = nn.CrossEntropy{}
	lm.ClipNorm, lm.L2 = 0, 0
	amoeba := smallAmoebaNet.pipeline(t, false)
	amoeba.Loss = nn.AuxiliaryLoss{CrossEntropy: nn.CrossEntropy{}}
	for _, n := range []struct {
		name    string
		plain   Pipeline
		batch   nn.Batch
		trained []nn.Loss
	}{
		{"transformer-lm", lm, small.data(1), []nn.Loss{nn.CrossEntropy{Smoothing: 0.1}, nn.CrossEntropy{Smoothing: 0.5}}},
		{"amoebanetd", amoeba, smallAmoebaNet.data(0), []nn.Loss{
			nn.AuxiliaryLoss{CrossEntropy: nn.CrossEntropy{Smoothing: 0.1}}, nn.AuxiliaryLoss{Weight: 2},
		}},
	} {
		evaluated, trained := losses(n.plain, n.batch)
		for _, loss := range n.trained {
			p := n.plain
			p.Loss, p.ClipNorm, p.L2 = loss, 0.5, 0.01
			e, s := losses(p, n.batch)
			testkit.Equal(t, e, evaluated, "%s with %+v: evaluates to", n.name, loss)
			if s == trained {
				t.Errorf("%s with %+v: a step's loss is %s, as without", n.name, loss, s)
			}
		}
	}
}
