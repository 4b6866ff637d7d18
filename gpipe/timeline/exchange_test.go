package timeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
)

// exchanged lists the transfers after the last task, and the updates.
func exchanged(tl *Timeline) string {
	var b strings.Builder
	for _, e := range tl.Events {
		if e.Micro == -1 && e.Kind.crosses() || e.Kind == Update {
			fmt.Fprintf(&b, "%g-%g %d %s", e.Start, e.End, e.At.Stage, e.Kind)
			if e.Kind.crosses() {
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
	costs := Costs{
		Task:   each(1, 0, 1),
		Update: func(place.Place) float64 { return 1 },
		Link:   Link{Bandwidth: 10},
		Exchanges: []Exchange{
			{From: place.Stage(0), To: place.Stage(2), Bytes: 20}, {From: place.Stage(0), To: place.Stage(2), Bytes: 30}, {From: place.Stage(2), To: place.Stage(0), Bytes: 50},
		},
	}
	tl := build(t, schedule.GPipe, 3, 1, schedule.Never, false, costs)
	if err := Validate(tl, schedule.GPipe, 3, 1, schedule.Never, false); err != nil {
		t.Error(err)
	}
	want := `4-9 2 transfer with 0
6-8 0 transfer with 2
8-11 0 transfer with 2
11-12 0 update
11-12 1 update
11-12 2 update
`
	if diff := cmp.Diff(want, exchanged(tl)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	costs.Link.ThroughHost = true
	tl = build(t, schedule.GPipe, 3, 1, schedule.Never, false, costs)
	if err := Validate(tl, schedule.GPipe, 3, 1, schedule.Never, false); err != nil {
		t.Error(err)
	}
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
	if diff := cmp.Diff(want, exchanged(tl)); diff != "" {
		t.Errorf("through the host (-want +got)\n%s", diff)
	}

	costs.Exchanges = []Exchange{{From: place.Stage(1), To: place.Stage(3)}}
	lists, err := schedule.Build(schedule.GPipe, 3, 1, schedule.Never, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Replay(lists, costs); err == nil || !strings.Contains(err.Error(), "between stages 1 and 3 of 3") {
		t.Errorf("an exchange with a stage that is not there: %v", err)
	}
}
