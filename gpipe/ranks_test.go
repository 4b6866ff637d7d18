package gpipe

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// TestRanks: a loss with Ranks reports, in the order of the rows and however the
// network is run, the rank of each target among the logits that Predict returns, and
// changes nothing else.
func TestRanks(t *testing.T) {
	b := small.data(3)
	plain := openSmall(t, small.pipeline(t))
	without := must(plain.Evaluate(t.Context(), b))(t)
	if without.Ranks != nil {
		t.Errorf("ranks %v of a loss without Ranks", without.Ranks)
	}
	for _, c := range []struct{ k, m int }{{1, 1}, {3, 4}} {
		p := small.pipeline(t)
		p.Loss = nn.CrossEntropy{Smoothing: small.smooth, Ranks: true}
		p.Partitions, p.MicroBatches = c.k, c.m
		tr := openSmall(t, p)
		r := must(tr.Evaluate(t.Context(), b))(t)
		out := must(tr.Predict(t.Context(), b.Inputs...))(t)
		classes := out[0].Shape[2]
		var want []float32
		for i, target := range b.Targets[0].I32 {
			rank := float32(-1)
			if target >= 0 {
				z := out[0].F32[i*classes : (i+1)*classes]
				rank = 0
				for j, v := range z { // clipped, with many ties
					if v > z[target] || v == z[target] && j < int(target) {
						rank++
					}
				}
			}
			want = append(want, rank)
		}
		testkit.EqualAll(t, r.Ranks, want, "K=%d M=%d: ranks", c.k, c.m)
		if r.Within(1) != r.Correct || r.Within(classes) != r.Count || r.Within(5) <= r.Within(1) || r.Within(5) >= r.Count {
			t.Errorf("K=%d M=%d: %d of %d first, %d among five; correct %d", c.k, c.m, r.Within(1), r.Count, r.Within(5), r.Correct)
		}
		if r.Loss != without.Loss || r.Correct != without.Correct {
			t.Errorf("K=%d M=%d: loss %v, %d correct; without ranks %v, %d", c.k, c.m, r.Loss, r.Correct, without.Loss, without.Correct)
		}
		step := stepped(t, tr, b)
		testkit.Equal(t, len(step.Ranks), len(want), "K=%d M=%d: ranks of a step", c.k, c.m)
		stepped(t, plain, b)
		if c.k == 1 && tr.Hash() != plain.Hash() {
			t.Error("ranks change the training")
		}
		checkMemory(t, tr)
	}
}
