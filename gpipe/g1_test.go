package gpipe

import (
	"testing"

	"gpipebench/gpipe/timeline"
)

// checkTimeline is guarantee G3 on one step.
func checkTimeline(t testing.TB, tr *Trainer, r *Result) {
	t.Helper()
	n := tr.net
	if err := timeline.Validate(r.Timeline, n.Schedule, n.Partitions, len(r.Times.Stages[0].F), n.Checkpoint, n.LateRecompute); err != nil {
		t.Error(err)
	}
}

// checkMemory is guarantee G2 on a run.
func checkMemory(t testing.TB, tr *Trainer) {
	t.Helper()
	for k, p := range tr.Plans() {
		bytes, peak := tr.HighWater(k)
		if bytes != p.Bytes || peak != p.Peak {
			t.Errorf("device %d: planned %v, peak %d; used %v, peak %d", k, p.Bytes, p.Peak, bytes, peak)
		}
	}
}

func TestSmoke(t *testing.T) {
	want := small.train(t, small.pipeline(t))
	t.Log(want)
	for _, k := range []int{2, 3, 5, 8} {
		p := small.pipeline(t)
		p.Partitions, p.MicroBatches = k, 3
		p.testing.poison = true
		if got := small.train(t, p); got != want {
			t.Errorf("K=%d: %v", k, got)
		}
	}
}
