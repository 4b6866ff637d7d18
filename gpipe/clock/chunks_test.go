package clock_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// everyChunked runs f for many schedules with several chunks on a device, or that split B.
func everyChunked(t *testing.T, f func(t *testing.T, lists [][]schedule.Task, p schedule.Placement, micro int)) {
	for _, name := range schedule.Names()[3:] {
		for _, devices := range []int{1, 2, 3, 4} {
			for _, chunks := range []int{0, 3} {
				for _, micro := range []int{1, 2, 3, 5, 8} {
					lists, p, err := schedule.Generate(name, devices, chunks, micro)
					if err != nil {
						continue // these devices and chunks have none
					}
					for _, c := range []schedule.Checkpoint{schedule.Always, schedule.Never} {
						t.Run(fmt.Sprintf("%s/K=%d/V=%d/M=%d/%v", name, devices, p.Stages()/devices, micro, c), func(t *testing.T) {
							f(t, schedule.Checkpointed(lists, c, micro%2 == 0), p, micro)
						})
					}
				}
			}
		}
	}
}

// With free links a replay is package schedule's own clock, event by event, also of stages
// that differ: room for gradients holds up nothing where they are alike.
func TestChunksWithFreeLinks(t *testing.T) {
	times := schedule.Duration{F: 1, R: 1, I: 1, W: 1}
	everyChunked(t, func(t *testing.T, lists [][]schedule.Task, p schedule.Placement, micro int) {
		unit := times
		unit.W = 0 // B takes one as well
		for _, d := range []schedule.Duration{times, unit} {
			want := testkit.Must(schedule.Run(lists, p, micro, schedule.Alike(d, 0)))(t)
			tl := testkit.Must(clock.Replay(lists, clock.Costs{Placement: p, Task: func(_ place.Place, t schedule.Task) float64 { return d.Of(t.Kind) }}))(t)
			next := make([]int, len(lists))
			for _, e := range tl.Events {
				if !e.Kind.Task() {
					continue
				}
				k := e.At.Stage
				i := next[k]
				next[k]++
				if task := lists[k][i]; task.Kind != scheduleKind(e.Kind) || task.Chunk != e.At.Chunk || task.Micro != e.Micro || want.Start[k][i] != e.Start || want.End[k][i] != e.End {
					if want.Start[k][i] == want.End[k][i] || e.Start == e.End {
						continue // tasks of no length may come in another order
					}
					t.Fatalf("device %d: %v, want %v from %v to %v", k, e, task, want.Start[k][i], want.End[k][i])
				}
			}
		}
	})
}

func scheduleKind(k timeline.Kind) schedule.Kind {
	for s := schedule.Forward; ; s++ {
		if timeline.KindOf(schedule.Task{Kind: s}) == k {
			return s
		}
	}
}

// Every replay with random times and links is a step as clocktest.Check knows it, and a link
// carries one thing at a time.
func TestChunksWithLinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 22))
	for range 150 {
		devices, chunks, micro := 1+rng.IntN(4), 1+rng.IntN(3), 1+rng.IntN(7)
		c, late := schedule.Checkpoint(rng.IntN(3)), rng.IntN(2) == 0
		lists, p, err := schedule.Lists(schedule.Interleaved, devices, chunks, micro, c, late)
		testkit.NoError(t, err)
		costs := clock.Costs{
			Placement: p,
			Task:      func(place.Place, schedule.Task) float64 { return rng.Float64() },
			Setup:     func(place.Place) float64 { return rng.Float64() },
			Update:    func(place.Place) float64 { return rng.Float64() },
			Boundary:  func(at place.Place, micro int) int64 { return int64(7*at.Stage + 3*at.Chunk + micro) },
			Link:      clock.Link{Bandwidth: 20, Latency: rng.Float64() / 4, ThroughHost: rng.IntN(2) == 0},
		}
		tl := testkit.Must(clock.Replay(lists, costs))(t)
		testkit.NoError(t, clocktest.Check(tl, lists), "K=%d V=%d M=%d", devices, chunks, micro)
		free := map[[2]int]float64{} // of each link, since when
		for _, e := range tl.Events {
			if link := [2]int{e.At.Stage, e.Peer.Stage}; e.Kind == timeline.Transfer {
				if e.Start < free[link] {
					t.Fatalf("%v starts while its link is busy until %v", e, free[link])
				}
				free[link] = e.End
			}
		}
		parts, err := clock.Breakdown(lists, costs)
		if err != nil || math.IsNaN(parts.Sum()) {
			t.Fatal(parts, err)
		}
	}
}
