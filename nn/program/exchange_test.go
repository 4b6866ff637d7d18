package program

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gpipebench/nn/graph"
)

// Runs that go on in equal strides are one transfer, which copies what they copy one by one and counts
// as their number; nothing else is.
func TestTransfersGoOn(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	nodes := []*graph.Node{{}, {}}
	merged := 0
	for range 200 {
		x := (&partwise{count: 2, store: &storage{}}).exchange(RowsOfImages, 0)
		src := make([]float32, 400)
		for i := range src {
			src[i] = draw.Float32()
		}
		want, got := [2][]float32{make([]float32, 400), make([]float32, 400)}, [2][]float32{make([]float32, 400), make([]float32, 400)}
		next, start, floats, step := [2]int{}, 0, 1, 3
		runs := 20
		for range runs {
			if draw.IntN(4) == 0 {
				floats, step = 1+draw.IntN(3), draw.IntN(5)
			}
			to := draw.IntN(2)
			one := transfer{to: to, from: 1 - to, dst: nodes[to], src: nodes[1-to], floats: floats, times: 1, first: next[to], start: start}
			next[to] += floats + draw.IntN(2)*draw.IntN(2)
			start += step
			copyRuns(&one, want[to], src)
			x.move(one)
		}
		counted := 0
		for _, c := range x.copies {
			copyRuns(&c, got[c.to], src)
			counted += c.runs
		}
		if counted != runs || !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
			t.Fatalf("%d runs count as %d in %d transfers %+v", runs, counted, len(x.copies), x.copies)
		}
		merged += runs - len(x.copies)
	}
	if merged < 1800 {
		t.Errorf("%d of 4000 runs go on, want more than 1800", merged)
	}
}
