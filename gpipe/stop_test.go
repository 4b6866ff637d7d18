package gpipe

import (
	"fmt"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// All processes learn after the same step, evaluation or prediction that one of them has
// asked to stop, whichever it is; what is computed has the same bits.
func TestAskToStop(t *testing.T) {
	pipeline := func() Pipeline {
		p := small.pipeline(t)
		p.MicroBatches, p.EMA = 2, nn.EMA{Decay: 0.9}
		return p
	}
	for _, owners := range [][]int{{0, 0}, {0, 1, 2}} {
		want := ""
		for what, run := range map[string]func(tr *Trainer) error{
			"nothing":    func(*Trainer) error { return nil },
			"step":       func(tr *Trainer) error { _, err := tr.Step(t.Context(), small.data(0)); return err },
			"evaluation": func(tr *Trainer) error { _, err := tr.Evaluate(t.Context(), small.data(0)); return err },
			"prediction": func(tr *Trainer) error { _, err := tr.Predict(t.Context(), small.data(0).Inputs...); return err },
		} {
			for asking := range owners[len(owners)-1] + 1 {
				ps := apart(t, owners, InputOf(small.data(0)), pipeline)
				asked := func(when string) bool { return said(t, ps, when, (*Trainer).StopAsked) }
				said(t, ps, what, func(tr *Trainer) string { return fmt.Sprint(run(tr)) })
				ps.trainers[asking].AskToStop()
				if asked("asked at once") {
					t.Errorf("%s: rank %d has asked, and all know before a step", what, asking)
				}
				if err := said(t, ps, what, func(tr *Trainer) string { return fmt.Sprint(run(tr)) }); err != "<nil>" {
					t.Error(err)
				}
				testkit.Equal(t, asked("asked"), what != "nothing", "%s: rank %d has asked, and all know", what, asking)
				hash := said(t, ps, "hash", (*Trainer).Hash)
				if what == "step" && want == "" {
					want = hash
				}
				if what == "step" && hash != want {
					t.Errorf("rank %d has asked: the weights are %s, want %s", asking, hash, want)
				}
			}
		}
	}
}
