package timeline_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// Two devices, two micro-batches. Device 0 begins at 1 s after a setup of another kind, F
// takes 2 s there and 4 s on device 1, B 3 s on both, a link 1 s.
func TestCauses(t *testing.T) {
	ev := func(stage int, k timeline.Kind, micro int, start, end float64) timeline.Event {
		return timeline.Event{At: place.Stage(stage), Kind: k, Micro: micro, Start: start, End: end}
	}
	tl := &timeline.Timeline{Devices: 2, Events: []timeline.Event{
		ev(0, timeline.Forward, 0, 0, 2), ev(0, timeline.Forward, 1, 2, 4),
		ev(1, timeline.Forward, 0, 3, 7), ev(1, timeline.Backward, 0, 7, 10), ev(1, timeline.Forward, 1, 10, 14), ev(1, timeline.Backward, 1, 14, 17),
		ev(0, timeline.Backward, 0, 11, 14), ev(0, timeline.Backward, 1, 18, 21),
		ev(1, timeline.Barrier, -1, 17, 21), ev(0, timeline.Update, -1, 21, 22), ev(1, timeline.Update, -1, 21, 22),
	}}
	want := []timeline.Idle{
		// 4 to 11: its first B needs B of device 1, which ends at 10, on average; 14 to 18: 17 to
		// 18 on the link.
		{WarmUp: 6, Drain: 3, Link: 2},
		// 0 to 3: F of device 0 ends at 2; 17 to 21 is the barrier.
		{WarmUp: 2, Link: 1, Barrier: 4},
	}
	for d, got := range tl.Causes() {
		testkit.Equal(t, got, want[d], "device %d", d)
	}
}

// Through the host: F takes 2 s on device 0, B 2 s on both, each leg 1 s on its device. Device 1 waits 2 s for F
// and 1 s for the host, device 0 after its F 3 s for the other B and 1 s for the host.
func TestCausesThroughHost(t *testing.T) {
	ev := func(stage int, k timeline.Kind, back bool, start, end float64) timeline.Event {
		return timeline.Event{At: place.Stage(stage), Peer: place.Stage(1 - stage), Kind: k, Backward: back, Start: start, End: end}
	}
	tl := &timeline.Timeline{Devices: 2, Events: []timeline.Event{
		ev(0, timeline.Forward, false, 0, 2), ev(0, timeline.ToHost, false, 2, 3), ev(1, timeline.FromHost, false, 3, 4), ev(1, timeline.Backward, false, 4, 6),
		ev(1, timeline.ToHost, true, 6, 7), ev(0, timeline.FromHost, true, 7, 8), ev(0, timeline.Backward, false, 8, 10),
	}}
	for d, want := range []timeline.Idle{{WarmUp: 3, Link: 1}, {WarmUp: 2, Drain: 3, Link: 1}} {
		testkit.Equal(t, tl.Causes()[d], want, "device %d", d)
	}
}

// A slow stage's neighbours wait for what it takes longer than the mean.
func TestCausesOfImbalance(t *testing.T) {
	lists := testkit.Must(schedule.Build(schedule.GPipe, 2, 3, schedule.Never, false))(t)
	tl := testkit.Must(clock.Replay(lists, clock.Costs{Task: func(at place.Place, t schedule.Task) float64 { return []float64{4, 2}[at.Stage] }}))(t)
	// Device 1: F of device 0 take 4 s, 3 s on average: a second of each gap of the three. The
	// rest: 3 s before its first task, and 1 s in each of two gaps before its first B.
	if got, want := tl.Causes()[1], (timeline.Idle{WarmUp: 5, Imbalance: 3, Drain: tl.Span() - 20}); math.Abs(got.Imbalance-want.Imbalance) > 1e-9 || math.Abs(got.WarmUp-want.WarmUp) > 1e-9 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The causes add up to the idle time: for every schedule by name, and for steps with links,
// uneven stages, setup, updates and a barrier.
func TestCausesAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	check := func(name string, tl *timeline.Timeline) {
		t.Helper()
		for d, idle := range tl.Causes() {
			want := tl.Span()
			for _, e := range tl.Events {
				if tl.Device(e.At) == d && e.Kind.OnDevice() && e.Kind != timeline.Barrier {
					want -= e.Seconds()
				}
			}
			if math.Abs(idle.Sum()-want) > 1e-9*tl.Span() {
				t.Errorf("%s, device %d: %+v, together %v, idle %v", name, d, idle, idle.Sum(), want)
			}
			for _, part := range []float64{idle.WarmUp, idle.Drain, idle.Neighbour, idle.Imbalance, idle.Link, idle.Barrier} {
				if part < 0 {
					t.Errorf("%s, device %d: %+v", name, d, idle)
				}
			}
		}
	}
	for _, name := range schedule.Names() {
		lists, p, err := schedule.Generate(name, 4, 0, 9)
		testkit.NoError(t, err)
		lists = schedule.Checkpointed(lists, schedule.Never, false)
		times := testkit.Must(schedule.Run(lists, p, 9, schedule.Alike(schedule.Duration{F: 2, I: 3, W: 1.5}, .25)))(t)
		check(name, timeline.Scheduled(lists, p, times, 1e-3))
	}
	for range 50 {
		stages, micro := 1+random.IntN(5), 1+random.IntN(7)
		lists := testkit.Must(schedule.Build(schedule.Schedule(random.IntN(len(schedule.Plain()))), stages, micro, schedule.Checkpoint(random.IntN(3)), random.IntN(2) == 0))(t)
		seconds := make([]float64, stages)
		for k := range seconds {
			seconds[k] = 1 + random.Float64()
		}
		one := func(place.Place) float64 { return 0.5 }
		tl := testkit.Must(clock.Replay(lists, clock.Costs{
			Task:     func(at place.Place, t schedule.Task) float64 { return seconds[at.Stage] * float64(1+int(t.Kind)) },
			Boundary: func(place.Place, int) int64 { return 1 << 20 },
			Link:     clock.Link{Bandwidth: 1 << 21, Latency: 0.1}, Setup: one, Update: one,
		}))(t)
		check("replay", tl)
	}
}
