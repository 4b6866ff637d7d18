package gpipe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// In a synctest bubble time moves only while everything waits, so tasks that sleep
// take exactly that time, and the runtime's wall-clock timeline can be compared with
// the closed forms and the virtual clock to the nanosecond.

const (
	fTime = 30 * time.Millisecond
	rTime = 20 * time.Millisecond
	bTime = 50 * time.Millisecond
)

func sleeping(_ int, kind timeline.Kind, _ int) {
	switch kind {
	case timeline.Forward:
		time.Sleep(fTime)
	case timeline.Recompute:
		time.Sleep(rTime)
	case timeline.Backward:
		time.Sleep(bTime)
	}
}

func TestRuntimeKeepsTheClosedForms(t *testing.T) {
	testkit.NotRaced(t)
	for _, s := range []schedule.Schedule{schedule.GPipe, schedule.Naive, schedule.OneFOneB} {
		for _, c := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
			for _, late := range []bool{false, true} {
				for _, km := range [][2]int{{1, 1}, {1, 4}, {2, 4}, {4, 4}, {4, 9}, {5, 2}} {
					synctest.Test(t, func(t *testing.T) {
						p := small.pipeline(t)
						p.Partitions, p.MicroBatches, p.Schedule, p.Checkpoint, p.LateRecompute = km[0], km[1], s, c, late
						p.testing.inTask = sleeping
						tr, err := p.Open(InputOf(small.data(0)))
						if err != nil {
							t.Fatal(err)
						}
						defer tr.Close()
						r, err := tr.Step(t.Context(), small.data(0))
						if err != nil {
							t.Fatal(err)
						}
						checkTimeline(t, tr, r)
						want, err := schedule.StepTime(s, c, late, km[0], km[1], fTime.Seconds(), rTime.Seconds(), bTime.Seconds())
						if err != nil {
							t.Fatal(err)
						}
						virtual, err := r.Times.Replay()
						if err != nil {
							t.Fatal(err)
						}
						for name, got := range map[string]float64{"wall clock": r.Seconds, "virtual clock": virtual.Span()} {
							if d := got - want; d > 1e-9 || d < -1e-9 {
								t.Errorf("%v %v late=%v K=%d M=%d: %s %v s, closed form %v s", s, c, late, km[0], km[1], name, got, want)
							}
						}
					})
				}
			}
		}
	}
}

// A step that is cancelled, or whose stage panics, ends at once, and the bubble
// ends only when no goroutine is left in it.
func TestFailureInABubble(t *testing.T) {
	for _, how := range []string{"cancel", "panic"} {
		synctest.Test(t, func(t *testing.T) {
			after := 100 * time.Millisecond
			if how == "panic" {
				after = time.Hour
			}
			ctx, cancel := context.WithTimeout(context.Background(), after)
			defer cancel()
			p := small.pipeline(t)
			p.Partitions, p.MicroBatches = 4, 9
			p.testing.inTask = func(stage int, kind timeline.Kind, micro int) {
				sleeping(stage, kind, micro)
				if how == "panic" && stage == 2 && micro == 1 {
					panic("boom")
				}
			}
			tr, err := p.Open(InputOf(small.data(0)))
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			start := time.Now()
			_, err = tr.Step(ctx, small.data(0))
			if how == "cancel" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: want the deadline", err)
			}
			var at *StageError
			if how == "panic" && (!errors.As(err, &at) || at.At.Stage != 2 || at.Task != "F1") {
				t.Errorf("%v: want the panic of stage 2 in F1", err)
			}
			// No stage waits longer than for its current task.
			if d := time.Since(start); d > 200*time.Millisecond {
				t.Errorf("the step ended after %v", d)
			}
		})
	}
}
