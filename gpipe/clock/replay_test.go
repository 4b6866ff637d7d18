package clock_test

import (
	ordered "cmp"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/internal/testkit"
)

// The two clocks, by longest paths and by events, are the same to the bit: on links that differ,
// with outboxes and slots of gradients that fill up, groups, exchanges, replicas and split
// backward functions. Costs with meetings, of which there are none, go to the latter.
func TestClocksAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	deadlocks := 0
	for range 1000 {
		in := clocktest.Random(t, rng, 0)
		decorate(t, rng, &in)
		fast, err := clock.Run(in.Tasks, in.Costs)
		events := in.Costs
		events.Meetings = func(place.Place, schedule.Task) []clock.Meeting { return nil }
		slow, want := clock.Run(in.Tasks, events)
		if fmt.Sprint(err) != fmt.Sprint(want) {
			t.Fatalf("%v: error %v, by events %v", in, err, want)
		}
		if err != nil {
			deadlocks++
			continue
		}
		if fast.Timeline().Stream == nil || slow.Timeline().Stream != nil {
			t.Fatalf("%v: not on both clocks", in)
		}
		if !slices.IsSortedFunc(slices.Collect(fast.Timeline().All()), byStart) {
			t.Fatalf("%v: events out of order", in)
		}
		testkit.Equal(t, cmp.Diff(all(slow.Timeline().All()), all(fast.Timeline().All())), "", "%v (-by events +by paths)", in)
		testkit.Equal(t, cmp.Diff(all(slow.Timeline().OnDevices()), all(fast.Timeline().OnDevices())), "", "%v, on devices (-by events +by paths)", in)
		testkit.Equal(t, cmp.Diff(slow.Timeline().Causes(), fast.Timeline().Causes()), "", "%v: causes of idle time (-by events +by paths)", in)
		if fast.Span() != slow.Span() || fast.Span() != fast.Timeline().Span() || !slices.Equal(fast.Busy(), slow.Busy()) {
			t.Fatalf("%v: span %v and %v, busy %v and %v", in, fast.Span(), slow.Span(), fast.Busy(), slow.Busy())
		}
		testkit.Equal(t, testkit.Must(fast.Breakdown())(t), testkit.Must(slow.Breakdown())(t), "%v: parts", in)
	}
	if deadlocks > 200 {
		t.Errorf("%d of 1000 cases are deadlocks", deadlocks)
	}
}

func byStart(a, b timeline.Event) int {
	return ordered.Or(ordered.Compare(a.Start, b.Start), ordered.Compare(a.At.Replica, b.At.Replica), ordered.Compare(a.At.Stage, b.At.Stage))
}

// all sorts events of which none are alike.
func all(events iter.Seq[timeline.Event]) []timeline.Event {
	return slices.SortedFunc(events, func(a, b timeline.Event) int {
		return ordered.Or(byStart(a, b), ordered.Compare(a.Kind, b.Kind), ordered.Compare(a.Micro, b.Micro), a.Peer.Compare(b.Peer), ordered.Compare(a.Bytes, b.Bytes), ordered.Compare(a.End, b.End))
	})
}

// decorate gives an instance replicas, stages of which some are far slower than others, and half
// of the time each of: split backward functions, links that differ, and groups with exchanges.
func decorate(t *testing.T, rng *rand.Rand, in *clocktest.Instance) {
	c := &in.Costs
	c.Link.ThroughHost = false
	if rng.IntN(2) == 0 {
		lists, _, err := schedule.Generate([]string{"zb-h1", "zb-h2"}[rng.IntN(2)], in.Stages, 0, in.Micro)
		testkit.NoError(t, err)
		in.Tasks = schedule.Checkpointed(lists, in.Checkpoint, in.Late)
	}
	c.Replicas = 1 + rng.IntN(3)
	in.Tasks = slices.Concat(slices.Repeat([][][]schedule.Task{in.Tasks}, c.Replicas)...)
	random := func(least, most float64) func(...int) float64 {
		seed := rng.Uint64()
		return func(of ...int) float64 {
			h := seed
			for _, n := range of {
				h = (h ^ uint64(n+1)) * 0x9e3779b97f4a7c15
				h ^= h >> 29
			}
			return least + (most-least)*float64(h>>11)/(1<<53)
		}
	}
	slow := make([]float64, in.Stages)
	for k := range slow {
		slow[k] = []float64{1, 1, 10}[rng.IntN(3)]
	}
	task := random(0, 1)
	c.Task = func(at place.Place, of schedule.Task) float64 {
		return slow[at.Stage] * max(0, task(at.Replica, at.Stage, int(of.Kind), of.Micro)-0.1)
	}
	c.Reduce = func(at place.Place) float64 { return slow[at.Stage] }
	if rng.IntN(2) == 0 {
		link := random(0, 3)
		c.Hop = func(from, to place.Place) clock.Link {
			return clock.Link{Bandwidth: 30, Latency: max(0, link(from.Stage, to.Stage)-1)}
		}
		c.Boundary = func(at place.Place, micro int) int64 { return int64(10 * (at.Stage + micro)) }
	}
	if in.Stages == 1 || rng.IntN(2) == 0 {
		return
	}
	between, group := rng.IntN(in.Micro), random(-0.5, 1)
	c.Group = func(at place.Place, micro int) float64 {
		if micro != between {
			return 0
		}
		return max(0, group(at.Stage))
	}
	exchange := func(bytes int64) clock.Exchange {
		from := rng.IntN(in.Stages)
		return clock.Exchange{From: place.Stage(from), To: place.Stage((from + 1 + rng.IntN(in.Stages-1)) % in.Stages), Bytes: bytes}
	}
	for i := range rng.IntN(4) {
		c.Exchanges = append(c.Exchanges, exchange(int64(10*i)))
	}
	if rng.IntN(2) == 0 {
		last := []clock.Exchange{exchange(100), exchange(200)}
		c.Last = func(int) []clock.Exchange { return last }
	}
}

// Through the host there is no fixed graph, since legs take turns. Instead, every
// event on a device must start at the end of another.
func TestReplayThroughHost(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 400 {
		in := clocktest.Random(t, rng, 0)
		in.Costs.Link.ThroughHost = true
		tl := in.Replay(t)
		ends := map[float64]bool{0: true}
		for _, e := range tl.Events {
			ends[e.End] = true
		}
		legs := 0
		for _, e := range tl.Events {
			if !ends[e.Start] {
				t.Fatalf("%v: %v starts at the end of nothing", in, e)
			}
			if e.Kind == timeline.ToHost || e.Kind == timeline.FromHost {
				legs++
			}
		}
		testkit.Equal(t, legs, 4*(in.Stages-1)*in.Micro, "%v: legs", in)
	}
}

func starts(tl *timeline.Timeline, device int, kind timeline.Kind) []float64 {
	var at []float64
	for _, e := range tl.Events {
		if e.At.Stage == device && e.Kind == kind {
			at = append(at, e.Start)
		}
	}
	return at
}

// Stage 0's B takes ten times stage 1's, so gradients pile up. Two wait in stage
// 0's slots, one of them in use; two more in stage 1's outbox; then stage 1 waits.
// Gradient 2 leaves the outbox at 18, when B0 ends on stage 0 and frees a slot.
func TestReplayGradientSlots(t *testing.T) {
	tl := clocktest.Build(t, schedule.GPipe, 2, 6, schedule.Never, false, clock.Costs{
		Task: func(at place.Place, t schedule.Task) float64 {
			if at.Stage == 0 && t.Kind == schedule.Backward {
				return 10
			}
			return 1
		},
	})
	testkit.Equal(t, cmp.Diff([]float64{7, 8, 9, 10, 18, 28}, starts(tl, 1, timeline.Backward)), "", "B on stage 1 (-want +got)")
	testkit.Equal(t, cmp.Diff([]float64{8, 18, 28, 38, 48, 58}, starts(tl, 0, timeline.Backward)), "", "B on stage 0 (-want +got)")
	var gradients []float64
	for _, e := range tl.Events {
		if e.Kind == timeline.Transfer && e.Backward {
			gradients = append(gradients, e.Start)
		}
	}
	testkit.Equal(t, cmp.Diff([]float64{8, 9, 18, 28, 38, 48}, gradients), "", "gradients' transfers (-want +got)")
}

// A transfer takes two seconds, F and B one. F2 waits for room in the outbox until
// the transfer of micro-batch 0 is over at 3, and so does B2 at 11.
func TestReplayLink(t *testing.T) {
	tl := clocktest.Build(t, schedule.GPipe, 2, 3, schedule.Never, false, clock.Costs{
		Task:     clocktest.Each(1, 0, 1),
		Boundary: func(place.Place, int) int64 { return 150 },
		Link:     clock.Link{Bandwidth: 100, Latency: 0.5},
	})
	var got strings.Builder
	for _, e := range tl.Events {
		fmt.Fprintf(&got, "%g-%g %d %s", e.Start, e.End, e.At.Stage, e.Label())
		if e.Kind == timeline.Transfer {
			fmt.Fprintf(&got, " to %d, %d bytes", e.Peer.Stage, e.Bytes)
		}
		got.WriteByte('\n')
	}
	want := `0-1 0 F0
1-3 0 0 to 1, 150 bytes
1-2 0 F1
3-5 0 1 to 1, 150 bytes
3-4 0 F2
3-4 1 F0
5-7 0 2 to 1, 150 bytes
5-6 1 F1
7-8 1 F2
8-9 1 B0
9-11 1 0 to 0, 150 bytes
9-10 1 B1
11-12 0 B0
11-13 1 1 to 0, 150 bytes
11-12 1 B2
13-14 0 B1
13-15 1 2 to 0, 150 bytes
15-16 0 B2
`
	testkit.Equal(t, cmp.Diff(want, got.String()), "", "-want +got")
	testkit.Equal(t, tl.Busy(1), 6, "stage 1 busy for")
	testkit.Equal(t, tl.Busy(1, timeline.Transfer), 6, "stage 1 sends for")
}

// Through the host a leg takes half a second here, of the sender's time and then
// of the receiver's.
func TestReplayThroughHostText(t *testing.T) {
	tl := clocktest.Build(t, schedule.GPipe, 2, 2, schedule.Never, false, clock.Costs{
		Task: clocktest.Each(1, 0, 1),
		Link: clock.Link{Latency: 0.5, ThroughHost: true},
	})
	want := `1 |......<<F0  <<F1  B0  >>B1  >>......|
0 |F0  >>F1  >>............<<B0  <<B1  |
   step 9 s  F forward  B backward  > to host  < from host  . idle
`
	var text strings.Builder
	testkit.NoError(t, draw.WriteText(&text, tl, 44))
	testkit.Equal(t, cmp.Diff(want, text.String()), "", "-want +got")
}

// A free link's crossings are there, with their bytes and no length.
func TestReplayFreeLink(t *testing.T) {
	const stages, micro = 3, 4
	tl := clocktest.Build(t, schedule.GPipe, stages, micro, schedule.Always, false, clock.Costs{
		Task:     clocktest.Each(1, 1, 1),
		Boundary: func(at place.Place, m int) int64 { return int64(1000*at.Stage + m) },
	})
	var bytes, count int64
	for _, e := range tl.Events {
		if e.Kind != timeline.Transfer {
			continue
		}
		testkit.Equal(t, e.Seconds(), 0, "%v takes time", e)
		testkit.Equal(t, e.Bytes, int64(1000*min(e.At.Stage, e.Peer.Stage)+e.Micro), "%v: bytes", e)
		bytes += e.Bytes
		count++
	}
	if want := int64(2 * (stages - 1) * micro); count != want || bytes != 2*(1000*micro+2*6) {
		t.Errorf("%d crossings with %d bytes, want %d with %d", count, bytes, want, 2*(1000*micro+2*6))
	}
}

func TestReplayRefuses(t *testing.T) {
	F := func(m int) schedule.Task { return schedule.Task{Kind: schedule.Forward, Micro: m, Keep: true} }
	R := func(m int) schedule.Task { return schedule.Task{Kind: schedule.Recompute, Micro: m} }
	B := func(m int) schedule.Task { return schedule.Task{Kind: schedule.Backward, Micro: m} }
	type list = []schedule.Task
	good := []list{{F(0), B(0)}, {F(0), B(0)}}
	ok := clock.Costs{Task: clocktest.Each(1, 1, 1)}
	with := func(change func(*clock.Costs)) clock.Costs {
		c := ok
		change(&c)
		return c
	}
	for _, test := range []struct {
		tasks []list
		costs clock.Costs
		want  string
	}{
		{nil, ok, "clock: lists of 0 stages for 1 replicas: want one or more, and as many for each"},
		{good, with(func(c *clock.Costs) { c.Replicas = 4 }), "clock: lists of 2 stages for 4 replicas: want one or more, and as many for each"},
		{good, with(func(c *clock.Costs) { c.Placement = schedule.Vee(1) }), "clock: schedule: lists of 2 devices: want 1"},
		{[]list{{F(0), B(0)}, {}}, ok, "clock: schedule: device 1: F0 is missing: want an F of each of 1 micro-batches"},
		{[]list{{F(0), R(0), B(0)}}, ok, "clock: schedule: device 0: R0 is not needed: its F keeps the residuals"},
		{good, clock.Costs{}, "clock: Costs.Task is nil: want a function"},
		{good, with(func(c *clock.Costs) { c.Link.Bandwidth = -1 }), "clock: link bandwidth -1: want bytes per second, or 0 for infinite"},
		{good, with(func(c *clock.Costs) { c.Link.Latency = math.NaN() }), "clock: link latency NaN: want seconds, finite and not negative"},
		{good, with(func(c *clock.Costs) { c.Task = clocktest.Each(1, 1, math.Inf(1)) }), "clock: stage 1: B0 takes +Inf seconds: want a finite time, not negative"},
		{good, with(func(c *clock.Costs) { c.Setup = func(at place.Place) float64 { return float64(-at.Stage) } }), "clock: stage 1: setup takes -1 seconds: want a finite time, not negative"},
		{good, with(func(c *clock.Costs) { c.Update = func(place.Place) float64 { return math.NaN() } }), "clock: stage 0: update takes NaN seconds: want a finite time, not negative"},
		{good, with(func(c *clock.Costs) { c.Boundary = func(place.Place, int) int64 { return -5 } }), "clock: stage 0: transfer of 0 carries -5 bytes: want 0 or more"},
		// Each stage alone is in order; together they wait in a circle.
		{[]list{{F(0), B(0), F(1), B(1)}, {F(0), F(1), B(0), B(1)}}, ok,
			"clock: deadlock: stage 0, B0 waits for its output gradient from stage 1 (2 stages wait)"},
	} {
		_, err := clock.Replay(test.tasks, test.costs)
		testkit.Equal(t, fmt.Sprint(err), test.want)
	}
}
