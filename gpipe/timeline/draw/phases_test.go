package draw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/testkit"
)

// In the trace a tensor is a process, in which each place has a tick for each replica, and
// all intervals of a place nest.
func TestReductionsInTrace(t *testing.T) {
	var out bytes.Buffer
	replica := place.Place{Replica: 1}
	tl := &timeline.Timeline{Devices: 2, Replicas: 2, Reductions: []timeline.Reduction{
		{Tensor: "table", Gathered: true, Ready: 1, Activities: []timeline.Activity{
			{Kind: timeline.PackRows, Peer: -1, Start: 4, End: 5}, {Kind: timeline.WaitForData, Peer: 1, Start: 5, End: 6, Bytes: 16}, {Kind: timeline.SumRows, Peer: -1, Start: 8, End: 9},
		}},
		{At: replica, Tensor: "table", Gathered: true, Ready: 3},
		{Tensor: "bias", Ready: 1, Activities: []timeline.Activity{{Kind: timeline.Carry, Peer: 1, Start: 2, End: 3.5, Bytes: 8}}},
		{At: replica, Tensor: "bias", Ready: 3, Activities: []timeline.Activity{{Kind: timeline.Carry, Peer: 0, Start: 5, End: 6, Bytes: 8}}},
	}}
	testkit.NoError(t, WriteChrome(&out, tl, nil))
	var trace struct{ TraceEvents []traceEvent }
	testkit.NoError(t, json.Unmarshal(out.Bytes(), &trace))
	processes := map[int]string{}
	ticks := map[[2]int][]string{}
	var table []string // the intervals of the first replica's table
	for _, e := range trace.TraceEvents {
		if e.Phase == "X" && e.Process == 3 && e.Thread == 0 {
			table = append(table, e.Name)
		}
		switch {
		case e.Name == "process_name" && e.Process > linkProcess:
			processes[e.Process] = fmt.Sprint(e.Args["name"])
		case e.Phase == "X" && len(e.Name) == 1:
			at := [2]int{e.Process, e.Thread}
			ticks[at] = append(ticks[at], fmt.Sprint(e.Name, "@", e.Start))
		}
		for _, other := range trace.TraceEvents {
			if e.Phase != "X" || other.Phase != "X" || e.Process != other.Process || e.Thread != other.Thread {
				continue
			}
			if a, b := e.Start, other.Start; a < b && b < a+*e.Length && b+*other.Length > a+*e.Length {
				t.Errorf("%+v and %+v cross", e, other)
			}
		}
	}
	if len(processes) != 2 || processes[3] != "table" || processes[4] != "bias" {
		t.Errorf("processes %v", processes)
	}
	testkit.Equal(t, strings.Join(table, " "), "NEGOTIATE_ALLGATHER 0 1 ALLGATHER QUEUE MEMCPY_IN_FUSION_BUFFER WAIT_FOR_DATA SUM_ROWS", "intervals")
	testkit.EqualAll(t, ticks[[2]int{3, 0}], []string{"0@1e+06", "1@3e+06"}, "ticks")
}

// Phases are drawn over one axis, each with its name; times that cannot be are refused.
func TestWritePhases(t *testing.T) {
	lanes := []PhaseLane{{"a<b", []timeline.Phase{
		{Name: "NEGOTIATE_ALLREDUCE", End: 1}, {Name: "ALLREDUCE", Start: 1, End: 3}, {Name: "MPI_ALLREDUCE", Start: 1, End: 2, Bytes: 64},
	}}}
	var out strings.Builder
	testkit.NoError(t, WritePhases(&out, PhaseDrawing{"first", lanes}, PhaseDrawing{"second", nil}))
	testkit.Has(t, out.String(), "a&lt;b", ">first<", ">second<", `<title>MPI_ALLREDUCE, 1 s to 2 s, 64 bytes</title>`, `<rect class="whole" x="378"`)
	lanes[0].Phases[2].End = 0.5
	testkit.Fails(t, WritePhases(&out, PhaseDrawing{"first", lanes}), "want 0 <= start <= end")
}
