package trained

import (
	"slices"
	"strings"
	"testing"
)

func TestSeeding(t *testing.T) {
	s := Seeding{Seeds: []uint64{1, 2}}
	if got := s.SeedNotes(); len(got) != 1 || !strings.Contains(got[0], "n = 2 seeds") {
		t.Errorf("%q", got)
	}
	s.Added = []uint64{7, 5, 6, 4}
	if got := s.AllSeeds(); !slices.Equal(got, []uint64{1, 2, 7, 5, 6, 4}) {
		t.Errorf("all: %v", got)
	}
	if got := s.SeedNotes(); len(got) != 1 || !strings.Contains(got[0], "open: seeds 7, 5, 6, 4. Intervals") {
		t.Errorf("%q", got)
	}
	if p := s.CheckSeeds(); p != nil {
		t.Error(p)
	}
	for _, added := range [][]uint64{{3, 2}, {3, 3}} {
		s.Added = added
		if p := s.CheckSeeds(); p == nil {
			t.Errorf("%v: no error", added)
		}
	}
}
