package timeline

import (
	"cmp"
	"math"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
)

// Idle is the time of a step in which a device does nothing, by cause, in seconds. An
// instant has the first of these causes that applies:
//
//   - Barrier: a Barrier event is on the device.
//   - Link: what its next task needs has been made by another device and is not there yet.
//   - Imbalance: the task that makes it is under way, and has been for longer than tasks of
//     its kind take on average over all of the step.
//   - WarmUp: the device has not begun a B, I or R yet, or Drain: it has no F left to do. That
//     includes the time before its first task and after its last.
//   - Neighbour: all else, the device waits in the middle of the step for a task of another
//     one that has not begun or is under way.
type Idle struct {
	WarmUp    float64 `json:"warm_up"`
	Drain     float64 `json:"drain"`
	Neighbour float64 `json:"neighbour"`
	Imbalance float64 `json:"imbalance"`
	Link      float64 `json:"link"`
	Barrier   float64 `json:"barrier"`
}

// Sum is the idle time of all causes.
func (i Idle) Sum() float64 {
	return i.WarmUp + i.Drain + i.Neighbour + i.Imbalance + i.Link + i.Barrier
}

// Add adds another device's or step's, times a weight.
func (i *Idle) Add(o Idle, weight float64) {
	i.WarmUp += float64(weight * o.WarmUp)
	i.Drain += float64(weight * o.Drain)
	i.Neighbour += float64(weight * o.Neighbour)
	i.Imbalance += float64(weight * o.Imbalance)
	i.Link += float64(weight * o.Link)
	i.Barrier += float64(weight * o.Barrier)
}

// Causes divides the idle time of every device: the step's span less all events on the
// device but barriers. What comes from the host needs the task that made it. A task needs the F of the piece before its own, or the B or I of the
// piece after it; a device that is idle before an R waits for the gradient, as before a B.
func (tl *Timeline) Causes() []Idle {
	pieces := tl.Pieces()
	type task struct {
		start, end float64
		kind       Kind
		made       bool
	}
	made := make([][2][]task, max(tl.Replicas, 1)*pieces.Len()) // by place, whether it is a gradient, and micro-batch
	var mean [len(kinds)]struct{ seconds, tasks float64 }
	type device struct {
		firstBack, lastForward float64
		barriers               []Event
		at                     float64 // until here its time has been divided
	}
	devices := make([]device, tl.Devices)
	for d := range devices {
		devices[d].firstBack = math.Inf(1)
	}
	span := tl.Span()
	for e := range tl.OnDevices() {
		d := &devices[tl.Device(e.At)]
		if e.Kind == Barrier {
			d.barriers = append(d.barriers, e)
		}
		if !e.Kind.Task() {
			continue
		}
		mean[e.Kind].seconds += e.Seconds()
		mean[e.Kind].tasks++
		switch e.Kind {
		case Forward:
			d.lastForward = max(d.lastForward, e.End)
		case Backward, BackwardInput, Recompute:
			d.firstBack = min(d.firstBack, e.Start)
		}
		if e.Kind == Forward || e.Kind.SendsGradient() {
			back := 1
			if e.Kind == Forward {
				back = 0
			}
			of := &made[pieces.Index(e.At)][back]
			if more := e.Micro + 1 - len(*of); more > 0 {
				*of = append(*of, make([]task, more)...)
			}
			(*of)[e.Micro] = task{e.Start, e.End, e.Kind, true}
		}
	}
	// needed is the task of another device that a task, or what comes from the host, needs.
	needed := func(e Event) (from task) {
		host := e.Kind == FromHost && e.Micro >= 0
		if !host && (!e.Kind.Task() || e.Kind == BackwardWeights) {
			return from
		}
		next, back := pieces.Piece(e.At)+1, 1
		if e.Kind == Forward || host && !e.Backward {
			next, back = next-2, 0
		}
		if next < 0 || next >= pieces.Len() {
			return from
		}
		at := pieces.At(e.At.Replica, next)
		if of := made[pieces.Index(at)][back]; at.Stage != e.At.Stage && e.Micro < len(of) {
			from = of[e.Micro]
		}
		return from
	}
	idle := make([]Idle, tl.Devices)
	type part struct{ a, b float64 }
	var left, rest []part
	// gap divides a device's idle time up to b, at which next begins, if anything does.
	gap := func(d int, b float64, next *Event) {
		of, to := &devices[d], &idle[d]
		left = append(left[:0], part{of.at, b})
		// take gives what of that is from one time to another to a cause, and leaves what is on
		// either side.
		take := func(to *float64, from, until float64) {
			rest = rest[:0]
			for _, p := range left {
				lo, hi := max(p.a, from), min(p.b, until)
				if lo >= hi {
					rest = append(rest, p)
					continue
				}
				*to += hi - lo
				if p.a < lo {
					rest = append(rest, part{p.a, lo})
				}
				if hi < p.b {
					rest = append(rest, part{hi, p.b})
				}
			}
			left, rest = rest, left
		}
		for _, e := range of.barriers {
			take(&to.Barrier, e.Start, e.End)
		}
		if next != nil {
			if from := needed(*next); from.made {
				take(&to.Link, from.end, b)
				mean := mean[from.kind]
				take(&to.Imbalance, from.start+mean.seconds/mean.tasks, from.end)
			}
		}
		take(&to.WarmUp, of.at, min(of.firstBack, span))
		take(&to.Drain, of.lastForward, b)
		take(&to.Neighbour, of.at, b)
	}
	ordered := tl.OnDevices()
	if tl.Stream == nil {
		ordered = slices.Values(slices.SortedStableFunc(ordered, func(a, b Event) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) }))
	}
	for e := range ordered {
		if e.Kind == Meet || e.Kind == Barrier { // within a task, or idle
			continue
		}
		d := tl.Device(e.At)
		if e.Start > devices[d].at {
			gap(d, e.Start, &e)
		}
		devices[d].at = max(devices[d].at, e.End)
	}
	for d := range devices {
		if devices[d].at < span {
			gap(d, span, nil)
		}
	}
	return idle
}

// Scheduled is a schedule that has run on a virtual clock, as a timeline of tasks; unit is
// the unit of its times, in seconds.
func Scheduled(lists [][]schedule.Task, p schedule.Placement, times *schedule.Times, unit float64) *Timeline {
	tl := &Timeline{Devices: p.Devices, Placement: p}
	for d, list := range lists {
		for i, t := range list {
			tl.Events = append(tl.Events, Event{
				At: place.Place{Stage: d, Chunk: t.Chunk}, Kind: KindOf(t), Micro: t.Micro,
				Start: times.Start[d][i] * unit, End: times.End[d][i] * unit,
			})
		}
	}
	return tl
}
