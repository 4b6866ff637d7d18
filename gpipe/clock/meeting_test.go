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

// twoReplicas is a step of two replicas of one stage, whose F take 4 and 6 seconds and B
// as long. They meet in the middle of each, for 1 second at replica 0 and none at 1.
func twoReplicas(t *testing.T) ([][]schedule.Task, clock.Costs) {
	lists := testkit.Must(schedule.Build(schedule.GPipe, 1, 1, schedule.Never, false))(t)
	return append(lists, lists...), clock.Costs{
		Replicas: 2,
		Task:     func(at place.Place, _ schedule.Task) float64 { return 4 + 2*float64(at.Replica) },
		Meetings: func(at place.Place, _ schedule.Task) []clock.Meeting {
			return []clock.Meeting{{At: 0.5, Seconds: 1 - float64(at.Replica), Bytes: 8}}
		},
	}
}

// Replicas meet with those beside them alone, if only two meet together.
func TestReplicasMeetInTwos(t *testing.T) {
	lists, c := twoReplicas(t)
	c.Replicas, c.Together = 4, 2
	c.Task = func(at place.Place, _ schedule.Task) float64 {
		return 4 + 2*float64(at.Replica%2) + 10*float64(at.Replica/2)
	}
	c.Meetings = func(place.Place, schedule.Task) []clock.Meeting { return []clock.Meeting{{At: 0.5, Seconds: 1}} }
	tl := testkit.Must(clock.Replay(append(lists, lists...), c))(t)
	// F of 4 and 6 s: they meet at 3 s, and at 10 in B. F of 14 and 16 s: at 8 and 25.
	want := map[int][]float64{0: {3, 10}, 1: {3, 10}, 2: {8, 25}, 3: {8, 25}}
	for _, e := range tl.Events {
		if e.Kind == timeline.Meet {
			if at := want[e.At.Replica]; len(at) == 0 || e.Start != at[0] {
				t.Errorf("%v meets at %v s: want %v", e.At, e.Start, at)
			} else {
				want[e.At.Replica] = at[1:]
			}
		}
	}
	c.Together = 3
	testkit.Refused(clock.Replay(append(lists, lists...), c))(t, "3 of 4 replicas meet together")
}

// Replicas wait for the last at a meeting, and go on together.
func TestReplicasMeet(t *testing.T) {
	lists, c := twoReplicas(t)
	tl := testkit.Must(clock.Replay(lists, c))(t)
	testkit.NoError(t, clocktest.Check(tl, lists))
	// F of replica 0: 2 s, waits for 1, meets for 1, 2 s. Of replica 1: 3 s, meets for 1,
	// 3 s. So B begins at 6 and 7, and they meet when replica 1 is there, at 10.
	want := map[string][3]float64{ // start, end, away
		"F0 0": {0, 6, 2}, "F0 1": {0, 7, 1}, "B0 0": {6, 13, 3}, "B0 1": {7, 14, 1},
	}
	meets := []float64{3, 3, 10, 10}
	for _, e := range tl.Events {
		if e.Kind == timeline.Meet {
			if e.Start != meets[0] || e.Seconds() != 1 || e.Bytes != 8 {
				t.Errorf("%v with %d bytes: want it from %v s on, 1 s long, with 8", e, e.Bytes, meets[0])
			}
			meets = meets[1:]
			continue
		}
		name := e.Label() + " " + string(rune('0'+e.At.Replica))
		testkit.Equal(t, [3]float64{e.Start, e.End, e.Away}, want[name], "%s: start, end, away", name)
		delete(want, name)
	}
	if len(meets) > 0 || len(want) > 0 {
		t.Errorf("no meetings at %v, no %v", meets, want)
	}
	if got := []float64{tl.Busy(0), tl.Busy(1)}; got[0] != 8 || got[1] != 12 {
		t.Errorf("busy for %v s, want 8 and 12", got)
	}

	p := testkit.Must(clock.Breakdown(lists, c))(t)
	if p.Computation != 10 || p.Reduction != 2 || math.Abs(p.Sum()-14) > 1e-12 || p.Step != 14 {
		t.Errorf("parts %+v: want 10 s of computation, 2 s of reduction, 14 s in all", p)
	}
}

// Replicas that take the same time never wait at meetings, whatever the schedule: each of
// their tasks is as long as without, but for the meetings themselves.
func TestEvenReplicasDoNotWait(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		in := clocktest.Random(t, rng, 0)
		want := in.Replay(t)
		c := in.Costs
		c.Replicas = 2
		c.Meetings = func(_ place.Place, task schedule.Task) []clock.Meeting {
			if task.Kind == schedule.Recompute {
				return nil
			}
			return []clock.Meeting{{At: 0.3}, {At: 0.3}, {At: 1}}
		}
		both := slices.Concat(in.Tasks, in.Tasks)
		tl := testkit.Must(clock.Replay(both, c))(t, "%v", in)
		testkit.Equal(t, clocktest.Check(tl, both), nil, "%v", in)
		if got := tl.Span(); math.Abs(got-want.Span()) > 1e-9 {
			t.Errorf("%v: %v s with meetings, %v without", in, got, want.Span())
		}
	}
}

// What cannot be: another number of meetings, meetings out of order or outside of a task.
func TestMeetingsRefused(t *testing.T) {
	for name, change := range map[string]func(*clock.Costs){
		"1 of 2 replicas of stage 0 meet": func(c *clock.Costs) {
			all := c.Meetings
			c.Meetings = func(at place.Place, task schedule.Task) []clock.Meeting { return all(at, task)[at.Replica:] }
		},
		"want parts from 0 to 1": func(c *clock.Costs) {
			c.Meetings = func(place.Place, schedule.Task) []clock.Meeting { return []clock.Meeting{{At: 0.5}, {At: 0.4}} }
		},
		"F0 meets at 0.5 of it for NaN": func(c *clock.Costs) {
			c.Meetings = func(place.Place, schedule.Task) []clock.Meeting {
				return []clock.Meeting{{At: 0.5, Seconds: math.NaN()}}
			}
		},
		"takes -1 seconds": func(c *clock.Costs) { c.Task = func(place.Place, schedule.Task) float64 { return -1 } },
	} {
		lists, c := twoReplicas(t)
		change(&c)
		testkit.Refused(clock.Replay(lists, c))(t, name)
	}
}
