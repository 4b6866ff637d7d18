package gpipe

import (
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/internal/testkit"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// A step over a link is the same whether the link is there while it is timed or
// in the replay alone.
func TestTable3Crossing(t *testing.T) {
	link := clock.Link{Bandwidth: 1e6, ThroughHost: true}
	for _, model := range []train.Model{cellstest.SmallLM, {Name: "amoebanetd", Layers: 3, Filters: 8, Image: 32, Classes: 3}} {
		training := train.Training{
			Model: model, Batch: 4, Optimizer: "momentum", LR: 0.001, LRSchedule: "constant",
			Setup: train.Setup{Partitions: 3, MicroBatches: 2, Device: gpipe.Emulated, Threads: 1, Link: link},
		}
		l := testkit.Must(new(train.Timing).Open(t.Context(), training))(t)
		res := testkit.Must(l.Step(t.Context()))(t)
		sizes, _ := l.Trainer.Sizes()
		l.Close()
		out, _, err := timed.HandedOn(model)
		testkit.NoError(t, err)
		run := timed.Run{Training: training, Over: &timed.Crossing{Link: link, Out: out}}
		free := *res.Times
		free.Link, free.Boundary = clock.Link{}, nil
		tl := testkit.Must(run.Crossed(&free, sizes).Replay())(t)
		testkit.Equal(t, res.Seconds, tl.Span(), "%s: %v s, with the link in place", model.Name, tl.Span())
	}
}
