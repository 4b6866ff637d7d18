package draw

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
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

// trace is a trace while it is written; err is the first error.
type trace struct {
	out  *bufio.Writer
	lead string
	err  error
	name func(device int) string
}

func (t *trace) put(e traceEvent) {
	line, err := json.Marshal(e)
	if err != nil {
		t.err = cmp.Or(t.err, fmt.Errorf("draw: trace event %s: %w", e.Name, err))
	}
	t.out.WriteString(t.lead)
	t.out.Write(line)
	t.lead = ",\n"
}

// interval writes an event that lasts, with its times in seconds.
func (t *trace) interval(e traceEvent, start, end float64) {
	start, end = nanoseconds(start), nanoseconds(end)
	length := (end - start) / 1e3
	e.Phase, e.Start, e.Length = "X", start/1e3, &length
	t.put(e)
}

func (t *trace) process(process int, name string) {
	t.put(traceEvent{Name: "process_name", Phase: "M", Process: process, Args: map[string]any{"name": name}})
}

func (t *trace) thread(process, thread int, name string) {
	t.put(traceEvent{Name: "thread_name", Phase: "M", Process: process, Thread: thread, Args: map[string]any{"name": name}})
}

// row is thread for one that viewers put in the place of its number.
func (t *trace) row(process, thread int, name string) {
	t.thread(process, thread, name)
	t.put(traceEvent{Name: "thread_sort_index", Phase: "M", Process: process, Thread: thread, Args: map[string]any{"sort_index": thread}})
}

// WriteChrome writes the timeline as Chrome trace JSON, one event a line. The
// devices are threads of one process, in order; each link that carried
// something is a thread of another. names are the devices' names; a device without
// one is called "device k". Each tensor that replicas add up is a process of its own, as in
// Horovod's timeline (see timeline.Reduction.Phases). Times are in microseconds, as the format requires, to the
// nanosecond.
func WriteChrome(w io.Writer, tl *timeline.Timeline, names []string) error {
	t := &trace{out: bufio.NewWriter(w), lead: "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", name: func(k int) string {
		if k < len(names) && names[k] != "" {
			return names[k]
		}
		return fmt.Sprintf("device %d", k)
	}}
	t.process(deviceProcess, "devices")
	for k := range tl.Devices {
		t.row(deviceProcess, k, t.name(k))
	}
	tracks := linkTracks(tl)
	if len(tracks) > 0 {
		t.process(linkProcess, "links")
	}
	threads := map[track]int{}
	for i, l := range tracks {
		threads[l] = i
		what := "activations"
		if l.backward {
			what = "gradients"
		}
		t.row(linkProcess, i, fmt.Sprintf("%s to %s, %s", t.name(l.from), t.name(l.to), what))
	}
	for e := range tl.All() {
		entry := traceEvent{Name: e.Label(), Category: e.Kind.String(), Process: deviceProcess, Thread: tl.Device(e.At), Args: map[string]any{}}
		if e.Micro >= 0 {
			entry.Args["micro"] = e.Micro
		}
		if e.At.Chunk > 0 {
			entry.Args["chunk"] = e.At.Chunk
		}
		if e.Kind.Crosses() {
			entry.Args["bytes"] = e.Bytes
		}
		if e.Kind == timeline.Transfer {
			entry.Process = linkProcess
			entry.Thread = threads[track{tl.Device(e.At), tl.Device(e.Peer), e.Backward}]
		}
		t.interval(entry, e.Start, e.End)
	}
	t.reductions(tl)
	for i, a := range arrows(tl) {
		// A nanosecond inside, as a neighbour may begin or end at the same instant.
		out, in := nanoseconds(a.from.End), nanoseconds(a.to.Start)
		ends := [2]traceEvent{
			{Phase: "s", Start: max(nanoseconds(a.from.Start), out-1) / 1e3, Thread: tl.Device(a.from.At)},
			{Phase: "f", Start: min(nanoseconds(a.to.End), in+1) / 1e3, Thread: tl.Device(a.to.At), Bind: "e"},
		}
		for _, e := range ends {
			e.Name, e.Category, e.Process, e.ID = a.carries, "boundary", deviceProcess, i+1
			t.put(e)
		}
	}
	t.out.WriteString("\n]}\n")
	return cmp.Or(t.err, t.out.Flush())
}

// arrow leads from a task to the task of a neighbour that receives its boundary.
type arrow struct {
	from, to timeline.Event
	carries  string
}

// arrows lists those of a step's F and B, in the order of their senders' events.
func arrows(tl *timeline.Timeline) (all []arrow) {
	type task struct {
		at    place.Place
		kind  timeline.Kind
		micro int
	}
	tasks := map[task]timeline.Event{}
	for e := range tl.All() {
		tasks[task{e.At, e.Kind, e.Micro}] = e
	}
	pieces := tl.Pieces()
	for e := range tl.All() {
		to, carries, kinds := 0, "activations", []timeline.Kind{e.Kind}
		switch {
		case e.Kind == timeline.Forward:
			to = pieces.Piece(e.At) + 1
		case e.Kind.SendsGradient():
			to, carries, kinds = pieces.Piece(e.At)-1, "gradients", []timeline.Kind{timeline.Backward, timeline.BackwardInput}
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
func linkTracks(tl *timeline.Timeline) []track {
	var tracks []track
	for e := range tl.All() {
		if t := (track{tl.Device(e.At), tl.Device(e.Peer), e.Backward}); e.Kind == timeline.Transfer && !slices.Contains(tracks, t) {
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

// reductions writes them as Horovod's timeline does: each tensor as a process
// of its own, here with each place as a thread, where Horovod has its first rank alone.
func (t *trace) reductions(tl *timeline.Timeline) {
	all := slices.Clone(tl.Reductions)
	slices.SortStableFunc(all, func(a, b timeline.Reduction) int { return cmp.Compare(a.At.Stage, b.At.Stage) })
	processes := map[string]int{}
	for i := range all {
		r := &all[i]
		process, ok := processes[r.Tensor]
		thread := tl.Device(r.At)
		if !ok {
			process = linkProcess + 1 + len(processes)
			processes[r.Tensor] = process
			t.process(process, r.Tensor)
		}
		t.thread(process, thread, t.name(thread))
		interval := func(p timeline.Phase) {
			args := map[string]any{}
			if p.Peer >= 0 {
				args["replica"] = p.Peer
			}
			if p.Bytes > 0 {
				args["bytes"] = p.Bytes
			}
			t.interval(traceEvent{Name: p.Name, Category: r.Operation(), Process: process, Thread: thread, Args: args}, p.Start, p.End)
		}
		readies := tl.Ready(r.At.Stage)
		negotiate, operation, activities := r.Phases(readies)
		interval(negotiate)
		for rank, ready := range readies { // a tick for each rank
			at := nanoseconds(min(max(ready, negotiate.Start), negotiate.End)) / 1e9
			interval(timeline.Phase{Name: strconv.Itoa(rank), Start: at, End: at, Peer: -1})
		}
		for _, p := range append([]timeline.Phase{operation}, activities...) {
			interval(p)
		}
	}
}
