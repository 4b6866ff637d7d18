package draw

import (
	"encoding/json"
	"errors"
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
	"gpipebench/internal/testkit"
)

// parsed is a trace as a viewer sees it.
type parsed struct {
	TraceEvents []traceEvent `json:"traceEvents"`
}

func chrome(t *testing.T, tl *timeline.Timeline, names []string) parsed {
	t.Helper()
	var out strings.Builder
	testkit.NoError(t, WriteChrome(&out, tl, names))
	var p parsed
	testkit.NoError(t, json.Unmarshal([]byte(out.String()), &p), "in\n%s", out.String())
	return p
}

func TestWriteChrome(t *testing.T) {
	tl := clocktest.Build(t, schedule.GPipe, 2, 1, schedule.Always, false, clock.Costs{
		Task:     clocktest.Each(1e-3, 2e-3, 3e-3),
		Boundary: func(place.Place, int) int64 { return 4096 },
		Link:     clock.Link{Latency: 5e-4},
		Update:   func(place.Place) float64 { return 1e-3 },
	})
	var out strings.Builder
	testkit.NoError(t, WriteChrome(&out, tl, []string{"tpu0"}))
	want := `{"displayTimeUnit":"ms","traceEvents":[
{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"devices"}},
{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"tpu0"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":1,"tid":0,"args":{"sort_index":0}},
{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":1,"args":{"name":"device 1"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":1,"tid":1,"args":{"sort_index":1}},
{"name":"process_name","ph":"M","ts":0,"pid":2,"tid":0,"args":{"name":"links"}},
{"name":"thread_name","ph":"M","ts":0,"pid":2,"tid":0,"args":{"name":"tpu0 to device 1, activations"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":2,"tid":0,"args":{"sort_index":0}},
{"name":"thread_name","ph":"M","ts":0,"pid":2,"tid":1,"args":{"name":"device 1 to tpu0, gradients"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":2,"tid":1,"args":{"sort_index":1}},
{"name":"F0","cat":"F","ph":"X","ts":0,"dur":1000,"pid":1,"tid":0,"args":{"micro":0}},
{"name":"0","cat":"transfer","ph":"X","ts":1000,"dur":500,"pid":2,"tid":0,"args":{"bytes":4096,"micro":0}},
{"name":"R0","cat":"R","ph":"X","ts":1000,"dur":2000,"pid":1,"tid":0,"args":{"micro":0}},
{"name":"F0","cat":"F","ph":"X","ts":1500,"dur":1000,"pid":1,"tid":1,"args":{"micro":0}},
{"name":"R0","cat":"R","ph":"X","ts":2500,"dur":2000,"pid":1,"tid":1,"args":{"micro":0}},
{"name":"B0","cat":"B","ph":"X","ts":4500,"dur":3000,"pid":1,"tid":1,"args":{"micro":0}},
{"name":"0","cat":"transfer","ph":"X","ts":7500,"dur":500,"pid":2,"tid":1,"args":{"bytes":4096,"micro":0}},
{"name":"barrier","cat":"barrier","ph":"X","ts":7500,"dur":3500,"pid":1,"tid":1},
{"name":"B0","cat":"B","ph":"X","ts":8000,"dur":3000,"pid":1,"tid":0,"args":{"micro":0}},
{"name":"barrier","cat":"barrier","ph":"X","ts":11000,"dur":0,"pid":1,"tid":0},
{"name":"update","cat":"update","ph":"X","ts":11000,"dur":1000,"pid":1,"tid":0},
{"name":"update","cat":"update","ph":"X","ts":11000,"dur":1000,"pid":1,"tid":1},
{"name":"activations","cat":"boundary","ph":"s","ts":999.999,"pid":1,"tid":0,"id":1},
{"name":"activations","cat":"boundary","ph":"f","ts":1500.001,"pid":1,"tid":1,"id":1,"bp":"e"},
{"name":"gradients","cat":"boundary","ph":"s","ts":7499.999,"pid":1,"tid":1,"id":2},
{"name":"gradients","cat":"boundary","ph":"f","ts":8000.001,"pid":1,"tid":0,"id":2,"bp":"e"}
]}
`
	testkit.Equal(t, cmp.Diff(want, out.String()), "", "-want +got")
}

// Arrows have two ends within an F or B each, of neighbouring stages and the same
// micro-batch, and do not go back in time: as many as there are boundaries.
func TestWriteChromeArrows(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for range 50 {
		in := clocktest.Random(t, rng, 0)
		tl := in.Replay(t)
		p := chrome(t, tl, nil)
		// within lists the F, or the B, that an arrow's end lies in; tasks may take no time.
		within := func(end traceEvent, kind string) (names []string) {
			for _, e := range p.TraceEvents {
				if e.Phase == "X" && e.Process == end.Process && e.Thread == end.Thread && e.Start <= end.Start && end.Start <= e.Start+*e.Length && e.Category == kind {
					names = append(names, e.Name)
				}
			}
			return names
		}
		starts := map[int]traceEvent{}
		sent, arrived := 0, 0
		for _, e := range p.TraceEvents {
			switch {
			case e.Phase == "s":
				starts[e.ID] = e
			case e.Phase == "f":
				arrived++
				s := starts[e.ID]
				kind, next := "F", 1
				if e.Name == "gradients" {
					kind, next = "B", -1
				}
				from, to := within(s, kind), within(e, kind)
				same := slices.ContainsFunc(from, func(name string) bool { return slices.Contains(to, name) })
				if !same || e.Thread != s.Thread+next || s.Start > e.Start || e.Bind != "e" {
					t.Fatalf("%v: an arrow from %+v in %v to %+v in %v", in, s, from, e, to)
				}
			case e.Phase == "X" && (e.Category == "F" && e.Thread < tl.Devices-1 || e.Category == "B" && e.Thread > 0):
				sent++
			}
		}
		if arrived != sent || len(starts) != sent {
			t.Fatalf("%v: %d boundaries, %d arrows begin and %d end", in, sent, len(starts), arrived)
		}
	}
}

// The gradient of a weight that stages share is on a track of its own, without a micro-batch.
func TestWriteChromeSharedGradient(t *testing.T) {
	p := chrome(t, &timeline.Timeline{Devices: 3, Events: []timeline.Event{
		{At: place.Stage(2), Peer: place.Stage(0), Kind: timeline.Transfer, Micro: -1, Start: 10, End: 11, Bytes: 7, Backward: true},
	}}, nil)
	last := p.TraceEvents[len(p.TraceEvents)-1]
	if last.Name != "transfer" || last.Args["bytes"] != 7.0 || last.Args["micro"] != nil {
		t.Errorf("%+v", last)
	}
}

func TestWriteChromeEmpty(t *testing.T) {
	p := chrome(t, &timeline.Timeline{}, nil)
	if slices.ContainsFunc(p.TraceEvents, func(e traceEvent) bool { return e.Phase != "M" }) {
		t.Error("an empty timeline has events")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWritersReportErrors(t *testing.T) {
	tl := clocktest.Build(t, schedule.GPipe, 2, 2, schedule.Never, false, clock.Costs{Task: clocktest.Each(1, 1, 1)})
	testkit.Fails(t, WriteChrome(broken{}, tl, nil))
	testkit.Fails(t, WriteText(broken{}, tl, 80))
}
