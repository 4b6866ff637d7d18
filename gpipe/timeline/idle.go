package timeline

import (
	"cmp"
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
// device but barriers. A task needs the F of the piece before its own, or the B or I of the
// piece after it; a device that is idle before an R waits for the gradient, as before a B.
func (tl *Timeline) Causes() []Idle {
	span := tl.Span()
	pieces := tl.Pieces()
	type made struct {
		place.Place
		back  bool
		micro int
	}
	by := map[made]Event{} // what makes outputs and gradients
	var mean [len(kinds)]struct{ seconds, tasks float64 }
	on := make([][]Event, tl.Devices)
	barriers := make([][]Event, tl.Devices)
	for _, e := range tl.Events {
		if !e.Kind.OnDevice() || e.Kind == Meet { // within a task
			continue
		}
		if e.Kind == Barrier {
			barriers[tl.Device(e.At)] = append(barriers[tl.Device(e.At)], e)
			continue
		}
		on[tl.Device(e.At)] = append(on[tl.Device(e.At)], e)
		if e.Kind.Task() {
			mean[e.Kind].seconds += e.Seconds()
			mean[e.Kind].tasks++
		}
		switch e.Kind {
		case Forward:
			by[made{e.At, false, e.Micro}] = e
		case Backward, BackwardInput:
			by[made{e.At, true, e.Micro}] = e
		}
	}
	// needed is the task of another device that a task needs.
	needed := func(e Event) (from Event, ok bool) {
		if !e.Kind.Task() || e.Kind == BackwardWeights {
			return from, false
		}
		back, piece := e.Kind != Forward, pieces.Piece(e.At)
		next := piece - 1
		if back {
			next = piece + 1
		}
		if next < 0 || next >= pieces.Len() {
			return from, false
		}
		at := pieces.At(e.At.Replica, next)
		if at.Stage == e.At.Stage {
			return from, false
		}
		from, ok = by[made{at, back, e.Micro}]
		return from, ok
	}
	idle := make([]Idle, tl.Devices)
	for d, events := range on {
		slices.SortFunc(events, func(a, b Event) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
		firstBack, lastForward := span, 0.0
		for _, e := range events {
			switch e.Kind {
			case Forward:
				lastForward = max(lastForward, e.End)
			case Backward, BackwardInput, Recompute:
				firstBack = min(firstBack, e.Start)
			}
		}
		// gap divides idle time from a to b, after which next begins, if anything does.
		gap := func(a, b float64, next *Event) {
			// take gives what of a to b is from one time to another to a cause, and returns what
			// is left on either side.
			type part struct{ a, b float64 }
			left := []part{{a, b}}
			take := func(to *float64, from, until float64) {
				var rest []part
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
				left = rest
			}
			for _, e := range barriers[d] {
				take(&idle[d].Barrier, e.Start, e.End)
			}
			if next != nil {
				if from, ok := needed(*next); ok {
					take(&idle[d].Link, from.End, b)
					of := mean[from.Kind]
					take(&idle[d].Imbalance, from.Start+of.seconds/of.tasks, from.End)
				}
			}
			take(&idle[d].WarmUp, a, firstBack)
			take(&idle[d].Drain, lastForward, b)
			take(&idle[d].Neighbour, a, b)
		}
		at := 0.0
		for i, e := range events {
			if e.Start > at {
				gap(at, e.Start, &events[i])
			}
			at = max(at, e.End)
		}
		if at < span {
			gap(at, span, nil)
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
