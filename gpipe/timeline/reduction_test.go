package timeline

import (
	"fmt"
	"strings"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/internal/testkit"
)

// two are the reductions of two replicas: the first waits for the second, whose gradients
// are complete at 3, and then for its turn until 4.
func two() *Timeline {
	return &Timeline{Devices: 2, Replicas: 2, Reductions: []Reduction{
		{At: place.Place{}, Tensor: "table", Gathered: true, Ready: 1, Activities: []Activity{
			{WaitForData, 1, 1, 2, 8}, {PackRows, -1, 4, 5, 0}, {WaitForData, 1, 5, 6, 16}, {Carry, 1, 6, 8, 16}, {SumRows, -1, 8, 9, 0},
		}},
		{At: place.Place{Replica: 1}, Tensor: "table", Gathered: true, Ready: 3},
		{At: place.Place{}, Tensor: "bias", Ready: 1, Activities: []Activity{{WaitForData, 1, 1, 2, 8}, {Carry, 1, 2, 3.5, 8}}},
		{At: place.Place{Replica: 1}, Tensor: "bias", Ready: 3, Activities: []Activity{{WaitForData, 0, 3, 5, 8}, {Carry, 0, 5, 6, 8}}},
	}}
}

// The phases of each, by Horovod's names, by hand.
func TestPhases(t *testing.T) {
	tl := two()
	for i, want := range []string{
		"NEGOTIATE_ALLGATHER 1-3, ALLGATHER 3-9: QUEUE 3-4, MEMCPY_IN_FUSION_BUFFER 4-5, WAIT_FOR_DATA 5-6, MPI_ALLGATHER 6-8, SUM_ROWS 8-9",
		"NEGOTIATE_ALLGATHER 3-3, ALLGATHER 3-3: ",
		// Its data are there before the other replica's last gradients.
		"NEGOTIATE_ALLREDUCE 1-2, ALLREDUCE 2-3.5: MPI_ALLREDUCE 2-3.5",
		"NEGOTIATE_ALLREDUCE 3-3, ALLREDUCE 3-6: WAIT_FOR_DATA 3-5, MPI_ALLREDUCE 5-6",
	} {
		text := func(p Phase) string { return fmt.Sprintf("%s %v-%v", p.Name, p.Start, p.End) }
		negotiate, operation, all := tl.Reductions[i].Phases(tl.Ready(0))
		var names []string
		for _, p := range all {
			names = append(names, text(p))
		}
		testkit.Equal(t, text(negotiate)+", "+text(operation)+": "+strings.Join(names, ", "), want, "%d", i)
	}
}
