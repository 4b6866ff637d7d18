package gpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// In a synctest bubble time moves only while everything waits, so tasks that sleep
// take exactly that time, and the runtime's wall-clock timeline can be compared with
// the closed forms and the virtual clock to the nanosecond.

// taskTimes has the times of tasks on even stages; B takes I and W together.
var taskTimes = map[timeline.Kind]time.Duration{
	timeline.Forward: 30 * time.Millisecond, timeline.Recompute: 20 * time.Millisecond, timeline.Backward: 50 * time.Millisecond,
	timeline.BackwardInput: 30 * time.Millisecond, timeline.BackwardWeights: 20 * time.Millisecond,
}

func sleeping(_ place.Place, kind timeline.Kind, _ int) { time.Sleep(taskTimes[kind]) }

// unevenly takes times that differ by place and micro-batch, up to threefold.
func unevenly(at place.Place, kind timeline.Kind, micro int) {
	time.Sleep(taskTimes[kind] * time.Duration(2+(5*at.Stage+3*at.Chunk+7*micro+11*int(kind))%5))
}

// The wall clock of every schedule is its own run, its closed form and the virtual clock's replay;
// with uneven stages the replay begins every task when the runtime does.
func TestStepsKeepTime(t *testing.T) {
	testkit.NotRaced(t)
	l := fine()
	for s := schedule.GPipe; s <= schedule.DualPipeV; s++ {
		for i, c := range []schedule.Checkpoint{schedule.Always, schedule.Always, schedule.ExceptLast, schedule.ExceptLast, schedule.Never} {
			late := i%2 == 1 // R waits for the output gradient
			for _, kmv := range [][3]int{{1, 1, 1}, {1, 4, 3}, {2, 4, 2}, {2, 5, 3}, {3, 6, 2}, {3, 2, 2}, {4, 9, 1}} {
				k, m, v := kmv[0], kmv[1], kmv[2]
				if s != schedule.Interleaved {
					v = 0
				}
				lists, placed, err := schedule.Lists(s, k, v, m, c, late)
				if err != nil || placed.Stages() > len(l.pipeline(t).Layers) {
					continue // there is no dualpipe-v of few micro-batches
				}
				step := func(t *testing.T, task func(at place.Place, kind timeline.Kind, micro int)) (*Result, *timeline.Timeline) {
					p := l.pipeline(t)
					p.Partitions, p.Chunks, p.MicroBatches, p.Schedule, p.Checkpoint, p.LateRecompute = k, v, m, s, c, late
					p.testing.inTask = task
					r := stepped(t, opened(t, p, InputOf(l.data(0))), l.data(0))
					checkTimeline(t, r)
					return r, must(r.Times.Replay())(t)
				}
				synctest.Test(t, func(t *testing.T) {
					r, virtual := step(t, sleeping)
					seconds := func(kind timeline.Kind) float64 { return taskTimes[kind].Seconds() }
					each := schedule.Duration{F: seconds(timeline.Forward), R: seconds(timeline.Recompute), I: seconds(timeline.BackwardInput), W: seconds(timeline.BackwardWeights)}
					run := must(schedule.Run(lists, placed, m, schedule.Alike(each, 0)))(t)
					for what, got := range map[string]float64{"wall clock": r.Seconds, "replay": virtual.Span(), "closed form": must(r.Times.ClosedForm(s, c, late))(t)} {
						if math.Abs(got-run.Makespan()) > 1e-9 {
							t.Errorf("%v %v late=%v K=%d V=%d M=%d: %s %v, want %v", s, c, late, k, v, m, what, got, run.Makespan())
						}
					}
				})
				synctest.Test(t, func(t *testing.T) {
					r, virtual := step(t, unevenly)
					starts := map[string]float64{}
					for _, e := range virtual.Events {
						if e.Kind.Task() {
							starts[fmt.Sprint(e.At, e.Label())] = e.Start
						}
					}
					for _, e := range r.Timeline.Events {
						if want := starts[fmt.Sprint(e.At, e.Label())]; e.Kind.Task() && math.Abs(e.Start-want) > 1e-9 {
							t.Errorf("%v %v late=%v K=%d V=%d M=%d: %v, replayed at %v s", s, c, late, k, v, m, e, want)
						}
					}
				})
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
			p.testing.inTask = func(at place.Place, kind timeline.Kind, micro int) {
				sleeping(at, kind, micro)
				if how == "panic" && at.Stage == 2 && micro == 1 {
					panic("boom")
				}
			}
			tr := opened(t, p, InputOf(small.data(0)))
			start := time.Now()
			_, err := tr.Step(ctx, small.data(0))
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
