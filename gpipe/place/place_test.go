package place

import (
	"slices"
	"testing"

	"gpipebench/internal/testkit"
)

// The first replica and the first chunk are not named.
func TestString(t *testing.T) {
	for want, p := range map[string]Place{
		"stage 0": {}, "stage 2": Stage(2), "replica 1, stage 2": {Replica: 1, Stage: 2},
		"stage 2, chunk 1": {Stage: 2, Chunk: 1}, "replica 3, stage 0, chunk 1": {Replica: 3, Chunk: 1},
	} {
		testkit.Equal(t, p.String(), want, "%+v", p)
	}
}

func TestOrder(t *testing.T) {
	want := []Place{Stage(0), {Chunk: 1}, Stage(1), {Replica: 1}, {Replica: 1, Stage: 1}}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Place.Compare)
	testkit.EqualAll(t, got, want)
	testkit.EqualAll(t, Stages(2), []Place{Stage(0), Stage(1)}, "the stages are")
}
