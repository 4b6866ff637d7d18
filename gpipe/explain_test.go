package gpipe

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// A token or target out of range panics in a kernel, on a worker's thread. It is named by its
// place in the batch and by the stage and task that found it.
func TestTokenOutside(t *testing.T) {
	untied := small
	untied.model.Tied = false
	every(t, func(t *testing.T, p Pipeline) {
		p.Layers = untied.pipeline(t).Layers
		vocab := int32(small.model.Vocab)
		last := small.data(0).Examples() - 1
		for _, c := range []struct {
			what  string
			value int32
			of    func(nn.Batch) nn.Tensor
			stage int
			parts int // of operations
		}{
			{"token", vocab, func(b nn.Batch) nn.Tensor { return b.Inputs[0] }, 0, 1},
			{"token", -1, func(b nn.Batch) nn.Tensor { return b.Inputs[0] }, 0, 2},
			{"target", vocab, func(b nn.Batch) nn.Tensor { return b.Targets[0] }, 2, 1},
			{"target", vocab, func(b nn.Batch) nn.Tensor { return b.Targets[0] }, 2, 2},
		} {
			p.Tensor, p.Blocks = c.parts, c.parts
			b := small.data(0)
			ids := c.of(b)
			ids.I32[len(ids.I32)-2] = c.value
			err := failing(t, context.Background(), p, b)
			want := fmt.Sprintf("example %d, position %d: %s %d: want 0 to %d", last, ids.Shape[1]-2, c.what, c.value, vocab-1)
			var at *StageError
			if !strings.HasSuffix(err.Error(), want) || !errors.As(err, &at) || at.At.Stage != c.stage || at.Task != "F3" {
				t.Errorf("%v: want %s, in F3 of stage %d", err, want, c.stage)
			}
		}
	})
}

// The collector is restored, also after steps that fail, and not before the last of
// overlapping pauses ends.
func TestCollectorResumes(t *testing.T) {
	percent := func() int {
		now := debug.SetGCPercent(-1)
		debug.SetGCPercent(now)
		return now
	}
	before := percent()
	first := pauseCollector()
	second := pauseCollector()
	first()
	first() // has no effect
	testkit.Equal(t, percent(), -1, "on again while the second pause lasts")
	second()
	testkit.Equal(t, percent(), before, "after both pauses")
	p := small.pipeline(t)
	p.Partitions, p.MicroBatches, p.Devices = 2, 2, []Device{{Kind: Emulated}}
	during := 0
	ctx, cancel := context.WithCancel(context.Background())
	for _, end := range []func(){func() {}, func() { panic("boom") }, cancel} {
		p.testing.inTask = func(_ place.Place, kind timeline.Kind, _ int) {
			during = percent()
			if kind == timeline.Backward {
				end()
			}
		}
		tr := must(p.Open(InputOf(small.data(0))))(t)
		_, _ = tr.Step(ctx, small.data(0))
		tr.Close()
		if got := percent(); got != before || during != -1 {
			t.Errorf("%d during a step and %d after it, want -1 and %d", during, got, before)
		}
	}
}
