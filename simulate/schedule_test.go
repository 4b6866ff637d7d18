package simulate

import (
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/testkit"
)

// A search within the memory of a schedule by name is no longer than that, whatever its chunks, and
// finds one micro-batch at a time where there is room for no more.
func TestSearchIsNoLonger(t *testing.T) {
	s := Scheduling{K: 2, M: 4, Seed: 1}
	s.Times.Duration, s.Times.Comm = schedule.Duration{F: 2, I: 3, W: 1}, .25
	s.Activations.Whole, s.Activations.Weights = 1, .5
	peak := func(r *Scheduled) (most float64) {
		for _, d := range r.Devices {
			most = max(most, d.Peak)
		}
		return most
	}
	for _, s.Schedule = range schedule.Names() {
		named := testkit.Must(s.Run())(t)
		search := s
		search.Search, search.Limit = true, peak(named)
		if r := testkit.Must(search.Run())(t); r.Span > named.Span+1e-9 || peak(r) > search.Limit+1e-9 {
			t.Errorf("%s takes %v within %v, the search %v within %v", s.Schedule, named.Span, search.Limit, r.Span, peak(r))
		}
	}
	s.Search, s.Limit = true, 1
	for s.Chunks = range 4 {
		if r := testkit.Must(s.Run())(t); peak(r) > 1+1e-9 || s.Chunks > 0 && r.Place.Stages() != s.Chunks*s.K {
			t.Errorf("%d chunks within 1: %v stages within %v", s.Chunks, r.Place.Stages(), peak(r))
		}
	}
}
