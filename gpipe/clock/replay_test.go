package clock_test

import (
	"fmt"
	"math"
	"math/rand/v2"
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

// criticalPath is an independent clock for links that do not go through the
// host: the longest path to each event in the graph of what it waits for.
type criticalPath struct {
	in    clocktest.Instance
	start map[string]float64
	end   map[string]float64
	// Where a task stands in its stage's list.
	place []map[string]int
}

// node is a task of a stage (link "") or the transfer of a micro-batch's output
// from a stage over its link to the next (">") or the one before ("<").
func (c *criticalPath) at(stage int, link string, task schedule.Task) float64 {
	name := fmt.Sprint(stage, link, task)
	if end, ok := c.end[name]; ok {
		return end
	}
	var before []float64
	var length float64
	in, k := c.in, stage
	if link == "" {
		length = in.Costs.Task(place.Stage(k), task)
		i := c.place[k][task.String()]
		if i > 0 {
			before = append(before, c.at(k, "", in.Tasks[k][i-1]))
		} else if in.Costs.Setup != nil {
			before = append(before, in.Costs.Setup(place.Stage(k)))
		}
		last := in.Stages - 1
		switch {
		case task.Kind == schedule.Forward && k > 0:
			before = append(before, c.at(k-1, ">", c.task(k-1, "F", task.Micro)))
		case k < last && (task.Kind == schedule.Backward || task.AwaitGrad):
			before = append(before, c.at(k+1, "<", c.task(k+1, "B", task.Micro)))
		}
		// The outbox: the transfer before the last one is over.
		switch {
		case task.Kind == schedule.Forward && k < last && task.Micro >= 2:
			before = append(before, c.at(k, ">", c.task(k, "F", task.Micro-2)))
		case task.Kind == schedule.Backward && k > 0 && task.Micro >= 2:
			before = append(before, c.at(k, "<", c.task(k, "B", task.Micro-2)))
		}
	} else {
		before = append(before, c.at(k, "", task))
		if task.Micro > 0 { // the link
			before = append(before, c.at(k, link, c.task(k, task.Kind.String(), task.Micro-1)))
		}
		from := k
		if link == "<" {
			from = k - 1
			if task.Micro >= 2 { // the receiver's slot
				before = append(before, c.at(k-1, "", c.task(k-1, "B", task.Micro-2)))
			}
		}
		var bytes int64
		if in.Costs.Boundary != nil {
			bytes = in.Costs.Boundary(place.Stage(from), task.Micro)
		}
		length = in.Costs.Link.Latency
		if in.Costs.Link.Bandwidth > 0 {
			length += float64(bytes) / in.Costs.Link.Bandwidth
		}
	}
	start := 0.0
	for _, b := range before {
		start = math.Max(start, b)
	}
	c.start[name], c.end[name] = start, start+length
	return start + length
}

func (c *criticalPath) task(stage int, kind string, micro int) schedule.Task {
	return c.in.Tasks[stage][c.place[stage][fmt.Sprint(kind, micro)]]
}

func TestReplayIsTheCriticalPath(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		in := clocktest.Random(t, rng, 0)
		in.Costs.Link.ThroughHost = false
		c := criticalPath{in: in, start: map[string]float64{}, end: map[string]float64{}}
		for _, list := range in.Tasks {
			place := map[string]int{}
			for i, task := range list {
				place[task.String()] = i
			}
			c.place = append(c.place, place)
		}
		tl := in.Replay(t)
		var last float64
		for _, e := range tl.Events {
			var name string
			switch e.Kind {
			case timeline.Forward, timeline.Recompute, timeline.Backward:
				task := c.task(e.At.Stage, e.Kind.String(), e.Micro)
				c.at(e.At.Stage, "", task)
				name = fmt.Sprint(e.At.Stage, "", task)
				last = max(last, e.End)
			case timeline.Transfer:
				link, kind := ">", "F"
				if e.Backward {
					link, kind = "<", "B"
				}
				task := c.task(e.At.Stage, kind, e.Micro)
				c.at(e.At.Stage, link, task)
				name = fmt.Sprint(e.At.Stage, link, task)
			default:
				continue
			}
			if e.Start != c.start[name] || e.End != c.end[name] {
				t.Fatalf("%v: %v, longest path gives %v to %v", in, e, c.start[name], c.end[name])
			}
		}
		if in.Costs.Update != nil {
			for k := range in.Stages {
				last = max(last, setupOf(in.Costs, k))
			}
			var longest float64
			for k := range in.Stages {
				longest = max(longest, in.Costs.Update(place.Stage(k)))
			}
			if got := tl.Span(); got != last+longest {
				t.Fatalf("%v: span %v, want the last task's end %v and the longest update %v", in, got, last, longest)
			}
		}
	}
}

func setupOf(c clock.Costs, k int) float64 {
	if c.Setup == nil {
		return 0
	}
	return c.Setup(place.Stage(k))
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
		if want := 4 * (in.Stages - 1) * in.Micro; legs != want {
			t.Fatalf("%v: %d legs, want %d", in, legs, want)
		}
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
	if diff := cmp.Diff([]float64{7, 8, 9, 10, 18, 28}, starts(tl, 1, timeline.Backward)); diff != "" {
		t.Errorf("B on stage 1 (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]float64{8, 18, 28, 38, 48, 58}, starts(tl, 0, timeline.Backward)); diff != "" {
		t.Errorf("B on stage 0 (-want +got)\n%s", diff)
	}
	var gradients []float64
	for _, e := range tl.Events {
		if e.Kind == timeline.Transfer && e.Backward {
			gradients = append(gradients, e.Start)
		}
	}
	if diff := cmp.Diff([]float64{8, 9, 18, 28, 38, 48}, gradients); diff != "" {
		t.Errorf("gradients' transfers (-want +got)\n%s", diff)
	}
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
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := tl.Busy(1); got != 6 {
		t.Errorf("stage 1 busy for %v s, want 6", got)
	}
	if got := tl.Busy(1, timeline.Transfer); got != 6 {
		t.Errorf("stage 1 sends for %v s, want 6", got)
	}
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
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
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
		if e.Seconds() != 0 {
			t.Errorf("%v takes time", e)
		}
		if want := int64(1000*min(e.At.Stage, e.Peer.Stage) + e.Micro); e.Bytes != want {
			t.Errorf("%v carries %d bytes, want %d", e, e.Bytes, want)
		}
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
		if err == nil || err.Error() != test.want {
			t.Errorf("error %v\n want %s", err, test.want)
		}
	}
}
