package timeline_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

func TestReplayIsValid(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1500 {
		in := clocktest.Random(t, rng, 0)
		if err := in.Validate(in.Replay(t)); err != nil {
			t.Fatalf("%v: %v", in, err)
		}
	}
}

// A valid timeline, damaged at random, is refused.
func TestValidateRefusesDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	seen := map[string]int{}
	for range 1500 {
		in := clocktest.Random(t, rng, 0.1)
		tl := in.Replay(t)
		i := rng.IntN(len(tl.Events))
		for !tl.Events[i].Kind.Task() {
			i = rng.IntN(len(tl.Events))
		}
		e := tl.Events[i]
		var damage string
		switch rng.IntN(4) {
		case 0:
			damage = "dropped"
			tl.Events = slices.Delete(tl.Events, i, i+1)
		case 1:
			damage = "doubled"
			e.Start += tl.Span() // where nothing overlaps it
			e.End += tl.Span()
			tl.Events = append(tl.Events, e)
		case 2:
			next := slices.IndexFunc(tl.Events, func(o timeline.Event) bool {
				return o.At.Stage == e.At.Stage && o.Kind.OnDevice() && o.Start >= e.End && o.Seconds() > 0
			})
			if next < 0 {
				continue
			}
			damage = "overlapping"
			tl.Events[i].End = tl.Events[next].Start + 0.05
		case 3:
			// Each F but stage 0's and each B but the last stage's needs what a
			// neighbour makes.
			of := func(device int, kind timeline.Kind) int {
				return slices.IndexFunc(tl.Events, func(o timeline.Event) bool {
					return o.At.Stage == device && o.Kind == kind && o.Micro == e.Micro
				})
			}
			needs := -1
			switch {
			case e.Kind == timeline.Forward && e.At.Stage > 0:
				needs = of(e.At.Stage-1, timeline.Forward)
			case e.Kind == timeline.Backward && e.At.Stage < in.Stages-1:
				needs = of(e.At.Stage+1, timeline.Backward)
			case e.Kind == timeline.Recompute:
				needs = of(e.At.Stage, timeline.Forward)
			}
			if needs < 0 {
				continue
			}
			damage = "early"
			tl.Events[i].Start = tl.Events[needs].End - 0.05
			tl.Events[i].End = tl.Events[i].Start
		}
		if err := in.Validate(tl); err == nil {
			t.Fatalf("%v: %v %s is not noticed", in, e, damage)
		}
		seen[damage]++
	}
	for damage, n := range seen {
		if n < 100 {
			t.Errorf("only %d timelines are %s", n, damage)
		}
	}
	t.Log(seen)
}

// What each check says. The timeline is K=2 M=2 with a second for each task and
// transfer:
//
//	1 |..F0F1R0B0R1B1......|
//	0 |F0F1R0......B0R1..B1|
func TestValidateSays(t *testing.T) {
	one := func(place.Place) float64 { return 1 }
	valid := func(link clock.Link) *timeline.Timeline {
		return clocktest.Build(t, schedule.GPipe, 2, 2, schedule.Always, false, clock.Costs{
			Task: clocktest.Each(1, 1, 1), Setup: one, Update: one, Link: link,
		})
	}
	find := func(tl *timeline.Timeline, device int, kind timeline.Kind, micro int) *timeline.Event {
		i := slices.IndexFunc(tl.Events, func(e timeline.Event) bool {
			return e.At.Stage == device && e.Kind == kind && e.Micro == micro
		})
		if i < 0 {
			t.Fatalf("no %v %d on device %d", kind, micro, device)
		}
		return &tl.Events[i]
	}
	drop := func(tl *timeline.Timeline, device int, kind timeline.Kind, micro int) {
		i := slices.Index(tl.Events, *find(tl, device, kind, micro))
		tl.Events = slices.Delete(tl.Events, i, i+1)
	}
	move := func(e *timeline.Event, start float64) { e.Start, e.End = start, start+e.Seconds() }
	onlyTasks := func(tl *timeline.Timeline) {
		tl.Events = slices.DeleteFunc(tl.Events, func(e timeline.Event) bool { return !e.Kind.Task() })
	}
	slow, host := clock.Link{Latency: 1}, clock.Link{Latency: 1, ThroughHost: true}

	for _, test := range []struct {
		name   string
		link   clock.Link
		damage func(tl *timeline.Timeline)
		want   string
	}{
		{"no F", clock.Link{}, func(tl *timeline.Timeline) { drop(tl, 1, timeline.Forward, 1) }, "no F1 on stage 1"},
		{"no B", clock.Link{}, func(tl *timeline.Timeline) { drop(tl, 0, timeline.Backward, 0) }, "no B0 on stage 0"},
		{"no R", clock.Link{}, func(tl *timeline.Timeline) { drop(tl, 0, timeline.Recompute, 1) }, "no R1 on stage 0, with checkpoint mode always"},
		{"F twice", clock.Link{}, func(tl *timeline.Timeline) { tl.Events = append(tl.Events, *find(tl, 0, timeline.Forward, 0)) }, "F0 on device 0 (1 to 2 s) is there twice"},
		{"overlap", clock.Link{}, func(tl *timeline.Timeline) { find(tl, 0, timeline.Setup, -1).End = 1.5 }, "setup on device 0 (0 to 1.5 s) and F0 on device 0 (1 to 2 s) overlap"},
		{"F before its input", clock.Link{}, func(tl *timeline.Timeline) { move(find(tl, 1, timeline.Forward, 0), 1.5) }, "F0 on device 1 (1.5 to 2.5 s) starts before the end of F0 on device 0 (1 to 2 s)"},
		{"B before its gradient", clock.Link{}, func(tl *timeline.Timeline) { onlyTasks(tl); move(find(tl, 0, timeline.Backward, 0), 5.5) }, "B0 on device 0 (5.5 to 6.5 s) starts before the end of B0 on device 1 (5 to 6 s)"},
		{"B before its R", clock.Link{}, func(tl *timeline.Timeline) { move(find(tl, 1, timeline.Recompute, 0), 7) }, "B0 on device 1 (5 to 6 s) starts before the end of R0 on device 1 (7 to 8 s)"},
		{"R before its F", clock.Link{}, func(tl *timeline.Timeline) { move(find(tl, 0, timeline.Recompute, 1), 0) }, "R1 on device 0 (0 to 1 s) starts before the end of F1 on device 0 (2 to 3 s)"},
		{"another replica", clock.Link{}, func(tl *timeline.Timeline) { find(tl, 0, timeline.Forward, 0).At.Replica = 1 }, "F0 on device 0 of replica 1 (1 to 2 s): want replicas 0 to 0"},
		{"an unknown device", clock.Link{}, func(tl *timeline.Timeline) { find(tl, 0, timeline.Forward, 0).At.Stage = 2 }, "F0 on device 2 of 2"},
		{"an unknown micro-batch", clock.Link{}, func(tl *timeline.Timeline) { find(tl, 0, timeline.Forward, 0).Micro = 2 }, "want micro-batches 0 to 1"},
		{"an unknown kind", clock.Link{}, func(tl *timeline.Timeline) { tl.Events[3].Kind = 77 }, "event 3 of unknown kind 77"},
		{"not a number", clock.Link{}, func(tl *timeline.Timeline) { find(tl, 0, timeline.Forward, 0).End = math.NaN() }, "want 0 <= start <= end"},
		{"before the step", clock.Link{}, func(tl *timeline.Timeline) { move(find(tl, 0, timeline.Setup, -1), -1) }, "want 0 <= start <= end"},
		{"end before start", clock.Link{}, func(tl *timeline.Timeline) { find(tl, 1, timeline.Backward, 1).End = 0 }, "want 0 <= start <= end"},
		{"endless", clock.Link{}, func(tl *timeline.Timeline) { find(tl, 1, timeline.Backward, 1).End = math.Inf(1) }, "want 0 <= start <= end"},
		{"a device too many", clock.Link{}, func(tl *timeline.Timeline) { tl.Devices++ }, "3 devices, want one for each of 2 stages"},

		{"a crossing lost", clock.Link{}, func(tl *timeline.Timeline) { drop(tl, 0, timeline.Transfer, 1) }, "the output of F1 on device 0 (2 to 3 s) must reach stage 1 in one transfer or in two legs through the host"},
		{"a crossing twice", slow, func(tl *timeline.Timeline) { tl.Events = append(tl.Events, *find(tl, 1, timeline.Transfer, 1)) }, "transfer of 1 on device 1 (9 to 10 s) is there twice"},
		{"a crossing too early", slow, func(tl *timeline.Timeline) { move(find(tl, 0, timeline.Transfer, 0), 1.5) }, "transfer of 0 on device 0 (1.5 to 2.5 s) starts before the end of F0 on device 0 (1 to 2 s)"},
		{"a crossing too late", slow, func(tl *timeline.Timeline) { move(find(tl, 1, timeline.Transfer, 0), 7.5) }, "B0 on device 0 (8 to 9 s) starts before the end of transfer of 0 on device 1 (7.5 to 8.5 s)"},
		{"a crossing the wrong way", slow, func(tl *timeline.Timeline) { find(tl, 0, timeline.Transfer, 0).Backward = true }, "want neighbours, activations forward and gradients backward"},
		{"a crossing to nowhere", slow, func(tl *timeline.Timeline) { find(tl, 1, timeline.Transfer, 0).Peer.Stage = -1 }, "between stages 1 and -1 of 2"},
		{"a shared gradient too early", slow, func(tl *timeline.Timeline) {
			tl.Events = append(tl.Events, timeline.Event{At: place.Stage(1), Peer: place.Stage(0), Kind: timeline.Transfer, Micro: -1, Start: 8, End: 12})
		}, "transfer on device 1 (8 to 12 s) starts before the end of B1 on device 1 (8 to 9 s)"},
		{"a shared gradient to itself", slow, func(tl *timeline.Timeline) {
			tl.Events = append(tl.Events, timeline.Event{At: place.Stage(1), Peer: place.Stage(1), Kind: timeline.Transfer, Micro: -1, Start: 9, End: 12})
		}, "transfer on device 1 (9 to 12 s) between stages 1 and 1 of 2: want two different stages"},
		{"a leg lost", host, func(tl *timeline.Timeline) { drop(tl, 1, timeline.FromHost, 0) }, "the output of F0 on device 0 (1 to 2 s) must reach stage 1"},
		{"legs in the wrong order", host, func(tl *timeline.Timeline) { move(find(tl, 1, timeline.FromHost, 0), 2.5) }, "from-host 0 on device 1 (2.5 to 3.5 s) starts before the end of to-host 0 on device 0 (2 to 3 s)"},
		{"two legs and a transfer", host, func(tl *timeline.Timeline) {
			tl.Events = append(tl.Events, timeline.Event{At: place.Stage(0), Peer: place.Stage(1), Kind: timeline.Transfer, Start: 3, End: 3})
		}, "in one transfer or in two legs"},
		{"compute during a leg", host, func(tl *timeline.Timeline) { move(find(tl, 0, timeline.Forward, 1), 2.5) }, "to-host 0 on device 0 (2 to 3 s) and F1 on device 0 (2.5 to 3.5 s) overlap"},

		{"setup in the middle", clock.Link{}, func(tl *timeline.Timeline) { move(find(tl, 0, timeline.Setup, -1), 4) }, "F0 on device 0 (1 to 2 s) starts before the end of setup on device 0 (4 to 5 s)"},
		{"setup twice", clock.Link{}, func(tl *timeline.Timeline) {
			tl.Events = append(tl.Events, timeline.Event{Kind: timeline.Setup, Micro: -1})
		}, "is there twice"},
		{"update before the barrier", clock.Link{}, func(tl *timeline.Timeline) {
			drop(tl, 1, timeline.Barrier, -1)
			tl.Events = append(tl.Events, timeline.Event{At: place.Stage(1), Kind: timeline.Barrier, Micro: -1, Start: 8, End: 8.5})
			move(find(tl, 1, timeline.Update, -1), 8.5)
		}, "after a barrier, update on device 1 (8.5 to 9.5 s) starts before the end of B1 on device 0 (8 to 9 s)"},
		{"update before the last B", clock.Link{}, func(tl *timeline.Timeline) { move(find(tl, 0, timeline.Update, -1), 4) }, "update on device 0 (4 to 5 s) starts before the end of B1 on device 0 (8 to 9 s)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tl := valid(test.link)
			if err := timeline.Validate(tl, schedule.GPipe, 2, 2, schedule.Always, false); err != nil {
				t.Fatal("before the damage:", err)
			}
			test.damage(tl)
			err := timeline.Validate(tl, schedule.GPipe, 2, 2, schedule.Always, false)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// A transfer between stages that is no boundary, after the backward pass, is accepted.
func TestSharedGradient(t *testing.T) {
	tl := clocktest.Build(t, schedule.GPipe, 3, 2, schedule.Always, false, clock.Costs{Task: clocktest.Each(1, 1, 1)})
	tl.Events = append(tl.Events, timeline.Event{At: place.Stage(2), Peer: place.Stage(0), Kind: timeline.Transfer, Micro: -1, Start: 10, End: 11, Bytes: 7, Backward: true})
	if err := timeline.Validate(tl, schedule.GPipe, 3, 2, schedule.Always, false); err != nil {
		t.Error(err)
	}
}

// A timeline is valid for what was run and for nothing else.
func TestValidateKnowsTheSchedule(t *testing.T) {
	const stages, micro = 3, 5
	type params struct {
		s    schedule.Schedule
		c    schedule.Checkpoint
		late bool
	}
	var all []params
	for _, s := range []schedule.Schedule{schedule.GPipe, schedule.Naive, schedule.OneFOneB} {
		for _, c := range []schedule.Checkpoint{schedule.Always, schedule.ExceptLast, schedule.Never} {
			for _, late := range []bool{false, true} {
				all = append(all, params{s, c, late})
			}
		}
	}
	// A late timeline is a valid early one: R may come early, it need not.
	accepts := func(as, run params) bool {
		if as.s != run.s || as.c != run.c {
			return false
		}
		return run.late || !as.late || as.c == schedule.Never || as.s == schedule.Naive
	}
	for _, run := range all {
		tl := clocktest.Build(t, run.s, stages, micro, run.c, run.late, clock.Costs{Task: clocktest.Each(1, 1, 1)})
		for _, as := range all {
			err := timeline.Validate(tl, as.s, stages, micro, as.c, as.late)
			if want := accepts(as, run); (err == nil) != want {
				t.Errorf("%+v run, validated as %+v: %v, want valid %v", run, as, err, want)
			}
		}
		if timeline.Validate(tl, run.s, stages, micro+1, run.c, run.late) == nil || timeline.Validate(tl, run.s, stages, micro-1, run.c, run.late) == nil {
			t.Errorf("%+v is valid for another number of micro-batches", run)
		}
	}
	if err := timeline.Validate(&timeline.Timeline{}, schedule.GPipe, 0, 1, schedule.Always, false); err == nil {
		t.Error("0 stages are valid")
	}
}

// B over micro-batches descending, as the paper draws it, conserves work but is
// not the order that fixes the bits.
func TestValidateWantsAscending(t *testing.T) {
	tl := clocktest.Build(t, schedule.GPipe, 2, 2, schedule.Never, false, clock.Costs{Task: clocktest.Each(1, 1, 1)})
	for i := range tl.Events {
		if e := &tl.Events[i]; e.Kind == timeline.Backward || e.Backward {
			e.Micro = 1 - e.Micro
		}
	}
	err := timeline.Validate(tl, schedule.GPipe, 2, 2, schedule.Never, false)
	if err == nil || !strings.Contains(err.Error(), "schedule gpipe: B1 on device 0 (4 to 5 s) starts before the end of B0 on device 0 (5 to 6 s)") {
		t.Error(err)
	}
}
