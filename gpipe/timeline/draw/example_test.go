package draw_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
)

// step replays a step of two stages and two micro-batches.
func step(s schedule.Schedule) (*timeline.Timeline, error) {
	lists, err := schedule.Build(s, 2, 2, schedule.Never, false)
	if err != nil {
		return nil, err
	}
	return clock.Replay(lists, clock.Costs{Task: func(place.Place, schedule.Task) float64 { return 1e-3 }})
}

// Two steps above one another over one axis of time.
func ExampleWriteSVG() {
	naive, err := step(schedule.Naive)
	if err != nil {
		fmt.Println(err)
		return
	}
	pipelined, err := step(schedule.GPipe)
	if err != nil {
		fmt.Println(err)
		return
	}
	var picture strings.Builder // or a file
	err = draw.WriteSVG(&picture,
		draw.Drawing{Caption: "one device at a time", Timeline: naive},
		draw.Drawing{Caption: "as a pipeline", Timeline: pipelined})
	if err != nil {
		fmt.Println(err)
		return
	}
	head, _, _ := strings.Cut(picture.String(), " width")
	fmt.Println(head)
	fmt.Println(strings.Contains(picture.String(), "as a pipeline"))
	// Output:
	// <svg xmlns="http://www.w3.org/2000/svg"
	// true
}

// A trace for chrome://tracing or ui.perfetto.dev.
func ExampleWriteChrome() {
	tl, err := step(schedule.GPipe)
	if err != nil {
		fmt.Println(err)
		return
	}
	var trace strings.Builder // or a file
	if err := draw.WriteChrome(&trace, tl, []string{"first half", "second half"}); err != nil {
		fmt.Println(err)
		return
	}
	var read struct {
		TraceEvents []struct {
			Name  string  `json:"name"`
			Phase string  `json:"ph"`
			Start float64 `json:"ts"`
			Pid   int     `json:"pid"` // 1: devices; 2: links
			Tid   int     `json:"tid"`
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal([]byte(trace.String()), &read); err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range read.TraceEvents {
		if e.Phase == "X" && e.Pid == 1 && e.Tid == 1 {
			fmt.Println(e.Name, "at", e.Start, "us")
		}
	}
	// Output:
	// F0 at 1000 us
	// F1 at 2000 us
	// B0 at 3000 us
	// B1 at 4000 us
}
