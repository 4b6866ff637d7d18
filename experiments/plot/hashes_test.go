package plot

import (
	"slices"
	"testing"
)

// Runs of equal weights have one name, those of others another, and no dot lies
// upon another.
func TestHashPanel(t *testing.T) {
	p := &HashPanel{Title: "net"}
	for _, r := range []struct {
		k, m int
		hash string
	}{{1, 1, "a"}, {1, 1, "a"}, {2, 4, "b"}, {8, 1, "a"}, {1, 4, "b"}, {1, 4, "c"}} {
		p.Add(r.k, r.m, r.hash)
	}
	if got := p.seriesNames(); len(got) != 3 {
		t.Errorf("%q: want 3 hashes", got)
	}
	if got := []int{p.runs[0].hash, p.runs[2].hash, p.runs[3].hash, p.runs[5].hash}; !slices.Equal(got, []int{0, 1, 0, 2}) {
		t.Errorf("hashes %v", got)
	}
	drawn, keys, err := p.plot(inks(p.seriesNames()))
	if err != nil {
		t.Fatal(err)
	}
	if drawn.Title.Text != "net: 6 runs, 3 SHA-256" || len(keys) != 3 {
		t.Errorf("%q, %d entries", drawn.Title.Text, len(keys))
	}
	places := map[Point]bool{}
	for _, dots := range p.places() {
		for _, at := range dots {
			places[Point{at.X, at.Y}] = true
		}
	}
	if len(places) != len(p.runs) {
		t.Errorf("%d places of %d runs", len(places), len(p.runs))
	}
}
