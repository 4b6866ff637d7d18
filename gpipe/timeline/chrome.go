package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"gpipebench/gpipe/place"
)

// The processes that tracks are grouped under in a trace.
const (
	deviceProcess = 1
	linkProcess   = 2
)

// traceEvent is one entry of the Trace Event Format (Google, "Trace Event
// Format", the JSON that chrome://tracing and ui.perfetto.dev read).
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`            // X: an interval; s and f: an arrow's ends; M: metadata
	Start    float64        `json:"ts"`            // microseconds
	Length   *float64       `json:"dur,omitempty"` // microseconds; intervals only
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	ID       int            `json:"id,omitempty"` // an arrow's
	Bind     string         `json:"bp,omitempty"` // e: an arrow ends at the interval that its time lies in
	Args     map[string]any `json:"args,omitempty"`
}

// track is one link: a direction between two devices.
type track struct {
	from, to int
	backward bool
}

// WriteChrome writes the timeline as Chrome trace JSON, one event a line. The
// devices are threads of one process, in order; each link that carried
// something is a thread of another. names are the devices' names; a device without
// one is called "device k". Each tensor that replicas add up is a process of its own, as in
// Horovod's timeline (see Reduction.Phases). Times are in microseconds, as the format requires, to the
// nanosecond.
func WriteChrome(w io.Writer, tl *Timeline, names []string) error {
	out := bufio.NewWriter(w)
	lead := "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
	put := func(e traceEvent) error {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("timeline: trace event %s: %w", e.Name, err)
		}
		out.WriteString(lead)
		out.Write(line)
		lead = ",\n"
		return nil
	}
	name := func(k int) string {
		if k < len(names) && names[k] != "" {
			return names[k]
		}
		return fmt.Sprintf("device %d", k)
	}
	meta := func(process, thread int, what string, args map[string]any) error {
		return put(traceEvent{Name: what, Phase: "M", Process: process, Thread: thread, Args: args})
	}
	thread := func(process, thread int, name string) error {
		if err := meta(process, thread, "thread_name", map[string]any{"name": name}); err != nil {
			return err
		}
		return meta(process, thread, "thread_sort_index", map[string]any{"sort_index": thread})
	}

	if err := meta(deviceProcess, 0, "process_name", map[string]any{"name": "devices"}); err != nil {
		return err
	}
	for k := range tl.Devices {
		if err := thread(deviceProcess, k, name(k)); err != nil {
			return err
		}
	}
	tracks := linkTracks(tl)
	if len(tracks) > 0 {
		if err := meta(linkProcess, 0, "process_name", map[string]any{"name": "links"}); err != nil {
			return err
		}
	}
	for i, t := range tracks {
		what := "activations"
		if t.backward {
			what = "gradients"
		}
		if err := thread(linkProcess, i, fmt.Sprintf("%s to %s, %s", name(t.from), name(t.to), what)); err != nil {
			return err
		}
	}
	for _, e := range tl.Events {
		start, end := nanoseconds(e.Start), nanoseconds(e.End)
		length := (end - start) / 1e3
		entry := traceEvent{
			Name: e.Label(), Category: e.Kind.String(), Phase: "X",
			Start: start / 1e3, Length: &length, Process: deviceProcess, Thread: tl.Device(e.At),
		}
		args := map[string]any{}
		if e.Micro >= 0 {
			args["micro"] = e.Micro
		}
		if e.At.Chunk > 0 {
			args["chunk"] = e.At.Chunk
		}
		if e.Kind.crosses() {
			args["bytes"] = e.Bytes
		}
		entry.Args = args
		if e.Kind == Transfer {
			entry.Process = linkProcess
			entry.Thread = slices.Index(tracks, track{tl.Device(e.At), tl.Device(e.Peer), e.Backward})
		}
		if err := put(entry); err != nil {
			return err
		}
	}
	if err := tl.reductionTrace(put, name); err != nil {
		return err
	}
	for i, a := range arrows(tl) {
		// A nanosecond inside, as a neighbour may begin or end at the same instant.
		out, in := nanoseconds(a.from.End), nanoseconds(a.to.Start)
		ends := [2]traceEvent{
			{Phase: "s", Start: max(nanoseconds(a.from.Start), out-1) / 1e3, Thread: tl.Device(a.from.At)},
			{Phase: "f", Start: min(nanoseconds(a.to.End), in+1) / 1e3, Thread: tl.Device(a.to.At), Bind: "e"},
		}
		for _, e := range ends {
			e.Name, e.Category, e.Process, e.ID = a.carries, "boundary", deviceProcess, i+1
			if err := put(e); err != nil {
				return err
			}
		}
	}
	out.WriteString("\n]}\n")
	return out.Flush()
}

// arrow leads from a task to the task of a neighbour that receives its boundary.
type arrow struct {
	from, to Event
	carries  string
}

// arrows lists those of a step's F and B, in the order of their senders' events.
func arrows(tl *Timeline) (all []arrow) {
	type task struct {
		at    place.Place
		kind  Kind
		micro int
	}
	tasks := map[task]Event{}
	for _, e := range tl.Events {
		tasks[task{e.At, e.Kind, e.Micro}] = e
	}
	pieces := tl.pieces()
	for _, e := range tl.Events {
		to, carries, kinds := 0, "activations", []Kind{e.Kind}
		switch {
		case e.Kind == Forward:
			to = pieces.Piece(e.At) + 1
		case e.Kind.SendsGradient():
			to, carries, kinds = pieces.Piece(e.At)-1, "gradients", []Kind{Backward, BackwardInput}
		default:
			continue
		}
		if to < 0 || to == pieces.Len() {
			continue
		}
		for _, kind := range kinds {
			if receiver, ok := tasks[task{pieces.At(e.At.Replica, to), kind, e.Micro}]; ok {
				all = append(all, arrow{e, receiver, carries})
			}
		}
	}
	return all
}

// nanoseconds rounds a time to the unit in which viewers count. Starts and ends are
// rounded rather than starts and lengths, so that neighbours on a track stay
// neighbours.
func nanoseconds(seconds float64) float64 { return math.Round(seconds * 1e9) }

// linkTracks lists the links that carried something, activations first.
func linkTracks(tl *Timeline) []track {
	seen := map[track]bool{}
	var tracks []track
	for _, e := range tl.Events {
		t := track{tl.Device(e.At), tl.Device(e.Peer), e.Backward}
		if e.Kind == Transfer && !seen[t] {
			seen[t] = true
			tracks = append(tracks, t)
		}
	}
	slices.SortFunc(tracks, func(a, b track) int {
		if a.backward != b.backward {
			if b.backward {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	return tracks
}
