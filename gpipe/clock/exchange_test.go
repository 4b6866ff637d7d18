package clock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/clock/clocktest"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// exchanged lists the transfers of no micro-batch, additions and updates.
func exchanged(tl *timeline.Timeline) string {
	var b strings.Builder
	for _, e := range tl.Events {
		if e.Micro == -1 && e.Kind.Crosses() || e.Kind == timeline.Reduce || e.Kind == timeline.Update {
			fmt.Fprintf(&b, "%g-%g %d %s", e.Start, e.End, e.At.Stage, e.Kind)
			if e.Kind.Crosses() {
				fmt.Fprintf(&b, " with %d", e.Peer.Stage)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Three stages, one micro-batch: stage 2 ends at 4, stage 0 at 6. Two gradients
// from 0 to 2 follow one another; the barrier waits for the last.
func TestExchange(t *testing.T) {
	costs := clock.Costs{
		Task:   clocktest.Each(1, 0, 1),
		Update: func(place.Place) float64 { return 1 },
		Link:   clock.Link{Bandwidth: 10},
		Exchanges: []clock.Exchange{
			{From: place.Stage(0), To: place.Stage(2), Bytes: 20}, {From: place.Stage(0), To: place.Stage(2), Bytes: 30}, {From: place.Stage(2), To: place.Stage(0), Bytes: 50},
		},
	}
	tl := clocktest.Build(t, schedule.GPipe, 3, 1, schedule.Never, false, costs)
	want := `4-9 2 transfer with 0
6-8 0 transfer with 2
8-11 0 transfer with 2
11-12 0 update
11-12 1 update
11-12 2 update
`
	testkit.Equal(t, cmp.Diff(want, exchanged(tl)), "", "-want +got")

	costs.Link.ThroughHost = true
	tl = clocktest.Build(t, schedule.GPipe, 3, 1, schedule.Never, false, costs)
	// A device is busy with its own leg before it takes what is in the host.
	want = `4-9 2 to-host with 0
6-8 0 to-host with 2
8-11 0 to-host with 2
9-11 2 from-host with 0
11-16 0 from-host with 2
11-14 2 from-host with 0
16-17 0 update
16-17 1 update
16-17 2 update
`
	testkit.Equal(t, cmp.Diff(want, exchanged(tl)), "", "through the host (-want +got)")

	costs.Exchanges = []clock.Exchange{{From: place.Stage(1), To: place.Stage(3)}}
	lists := testkit.Must(schedule.Build(schedule.GPipe, 3, 1, schedule.Never, false))(t)
	testkit.Refused(clock.Replay(lists, costs))(t, "between stages 1 and 3 of 3")
}

// Two stages that share a weight, two groups of one micro-batch: stage 1 ends the first
// group at 4, stage 0 at 5. Each adds it up when the other's gradient is there.
func TestExchangeOfGroups(t *testing.T) {
	costs := clock.Costs{
		Task:   clocktest.Each(1, 0, 1),
		Update: func(place.Place) float64 { return 1 },
		Group: func(_ place.Place, micro int) float64 {
			if micro == 0 {
				return 1
			}
			return 0
		},
		Link:      clock.Link{Bandwidth: 10},
		Exchanges: []clock.Exchange{{From: place.Stage(0), To: place.Stage(1), Bytes: 10}, {From: place.Stage(1), To: place.Stage(0), Bytes: 10}},
	}
	check := func(name, want string) {
		t.Helper()
		tl := clocktest.Build(t, schedule.GPipe, 2, 2, schedule.Never, false, costs)
		testkit.Equal(t, cmp.Diff(want, exchanged(tl)), "", "%s (-want +got)", name)
	}
	check("direct", `4-5 1 transfer with 0
5-6 0 transfer with 1
5-6 0 reduce
6-7 1 reduce
8-9 1 transfer with 0
9-10 0 transfer with 1
10-11 0 update
10-11 1 update
`)
	costs.Link.ThroughHost = true
	check("through the host", `4-5 1 to-host with 0
5-6 0 to-host with 1
6-7 0 from-host with 1
6-7 1 from-host with 0
7-8 0 reduce
7-8 1 reduce
9-10 1 to-host with 0
10-11 0 to-host with 1
11-12 0 from-host with 1
11-12 1 from-host with 0
12-13 0 update
12-13 1 update
`)
}
