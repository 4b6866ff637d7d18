package clock_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// What the clock replays can have happened; damaged at random, it cannot.
func TestReplayIsPossible(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1500 {
		in := clocktest.Random(t, rng, 0.1)
		tl := in.Replay(t)
		testkit.NoError(t, clocktest.Check(tl, in.Tasks), "%v", in)
		i := rng.IntN(len(tl.Events))
		e := tl.Events[i]
		if e.Kind.Crosses() && e.Seconds() == 0 || e.Kind == timeline.Barrier {
			continue
		}
		damage := []func(){
			func() { tl.Events = slices.Delete(tl.Events, i, i+1) },
			func() { tl.Events = append(tl.Events, e) },
			func() { tl.Events[i].Start, tl.Events[i].End = -1, 0 },
			func() { tl.Events[i].End = math.NaN() },
		}
		n := rng.IntN(len(damage))
		if n == 0 && (e.Kind == timeline.Setup || e.Kind == timeline.Update) || n == 3 && e.Kind == timeline.Transfer {
			continue // a step may be without the former, and times of links are TestReplayIsTheCriticalPath's
		}
		damage[n]()
		if clocktest.Check(tl, in.Tasks) == nil {
			t.Fatalf("%v: damage %d to %v is not noticed", in, n, e)
		}
	}
}

// What each part of Check is for. The timeline is K=2 M=2 with a second for each task and
// transfer:
//
//	1 |..F0F1R0B0R1B1......|
//	0 |F0F1R0......B0R1..B1|
func TestCheckNotices(t *testing.T) {
	one := func(place.Place) float64 { return 1 }
	lists := testkit.Must(schedule.Build(schedule.GPipe, 2, 2, schedule.Always, false))(t)
	find := func(tl *timeline.Timeline, device int, kind timeline.Kind, micro int) *timeline.Event {
		return &tl.Events[slices.IndexFunc(tl.Events, func(e timeline.Event) bool {
			return e.At.Stage == device && e.Kind == kind && e.Micro == micro
		})]
	}
	move := func(e *timeline.Event, start float64) { e.Start, e.End = start, start+e.Seconds() }
	for name, damage := range map[string]func(tl *timeline.Timeline){
		"F before its input":       func(tl *timeline.Timeline) { move(find(tl, 1, timeline.Forward, 0), 2) },
		"B before its gradient":    func(tl *timeline.Timeline) { move(find(tl, 0, timeline.Backward, 0), 7) },
		"a crossing too early":     func(tl *timeline.Timeline) { move(find(tl, 0, timeline.Transfer, 0), 1.5) },
		"a crossing too late":      func(tl *timeline.Timeline) { move(find(tl, 1, timeline.Transfer, 0), 7.5) },
		"a crossing the wrong way": func(tl *timeline.Timeline) { find(tl, 0, timeline.Transfer, 0).Backward = true },
		"tasks in another order": func(tl *timeline.Timeline) {
			find(tl, 0, timeline.Forward, 0).Micro, find(tl, 0, timeline.Forward, 1).Micro = 1, 0
		},
		"setup in the middle": func(tl *timeline.Timeline) { move(find(tl, 0, timeline.Setup, -1), 4) },
		"an update before the last": func(tl *timeline.Timeline) {
			move(find(tl, 1, timeline.Update, -1), 9)
			find(tl, 1, timeline.Barrier, -1).End = 9
		},
		"a meeting beside a task": func(tl *timeline.Timeline) {
			tl.Events = append(tl.Events, timeline.Event{Kind: timeline.Meet, Start: 0.2, End: 0.3})
		},
		"a task that is not away while it meets": func(tl *timeline.Timeline) {
			tl.Events = append(tl.Events, timeline.Event{Kind: timeline.Meet, Start: 1.2, End: 1.3})
		},
		"a group that is added up before its end": func(tl *timeline.Timeline) {
			tl.Events = append(tl.Events, timeline.Event{Kind: timeline.Reduce, Start: 4, End: 4})
		},
	} {
		tl := testkit.Must(clock.Replay(lists, clock.Costs{Task: clocktest.Each(1, 1, 1), Setup: one, Update: one, Link: clock.Link{Latency: 1}}))(t)
		if err := clocktest.Check(tl, lists); err != nil {
			t.Fatal("before the damage:", err)
		}
		damage(tl)
		if clocktest.Check(tl, lists) == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}
