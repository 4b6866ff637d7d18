package clock

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// Step is a step that has run on the virtual clock. For direct links it has a few times of
// each micro-batch, stage and direction, from which it makes events as they are asked for.
type Step struct {
	costs  Costs
	tasks  [][]schedule.Task
	micro  []int              // micro-batches of each replica
	lanes  []lane             // of all devices; nil: events has all
	events []timeline.Event   // in no order
	free   []float64          // of each device: since when it has done its tasks
	tail   [][]timeline.Event // of each device, after its tasks
}

// run runs lists that are a schedule, of as many micro-batches of each replica as micro says.
func run(tasks [][]schedule.Task, micro []int, c Costs) (*Step, error) {
	s := &Step{costs: c, tasks: tasks, micro: micro, free: make([]float64, len(tasks))}
	stages := len(tasks) / len(micro)
	for i, m := range micro {
		lanes := runDirect(i, tasks[i*stages:(i+1)*stages], m, c)
		if lanes == nil {
			s.lanes = nil
			all, err := runReplicas(tasks, micro, c)
			if err != nil {
				return nil, err
			}
			for i, r := range all {
				s.events = append(s.events, r.events...)
				for k := range r.devices {
					s.free[i*stages+k] = r.devices[k].free
				}
			}
			break
		}
		s.lanes = append(s.lanes, lanes...)
	}
	for i := range s.lanes {
		s.free[i] = s.lanes[i].free
	}
	var err error
	s.tail, err = c.finish(slices.Clone(s.free), true)
	return s, err
}

// Timeline is what happened. Its events are made as they are asked for, where that can be.
func (s *Step) Timeline() *timeline.Timeline {
	tl := &timeline.Timeline{Devices: len(s.tasks), Replicas: s.costs.Replicas, Placement: s.costs.Placement}
	if s.lanes == nil {
		tl.Events = s.list(s.tail)
		return tl
	}
	tl.Length = s.Span()
	tl.Stream = func(links bool) iter.Seq[timeline.Event] { return s.stream(s.tail, links) }
	return tl
}

// Span is the step's length in seconds.
func (s *Step) Span() float64 { return s.span(s.tail) }

func (s *Step) span(tail [][]timeline.Event) (span float64) {
	for _, e := range s.events {
		span = max(span, e.End)
	}
	for i, own := range tail {
		span = max(span, s.free[i])
		for _, e := range own {
			span = max(span, e.End)
		}
	}
	return span
}

// Busy is how many seconds each device spends on its tasks, as [timeline.Timeline.Busy] counts them.
func (s *Step) Busy() []float64 {
	busy := make([]float64, len(s.tasks))
	stages := len(s.tasks) / len(s.micro)
	for i := range s.events { // a device's in the order of its tasks, as in the timeline, so that sums have the same bits
		if e := &s.events[i]; e.Kind.Task() {
			busy[e.At.Replica*stages+e.At.Stage] += e.Seconds() - e.Away
		}
	}
	for k := range s.lanes {
		for i, t := range s.lanes[k].times {
			if timeline.KindOf(s.lanes[k].tasks[i]).Task() {
				busy[k] += t[1] - t[0]
			}
		}
	}
	return busy
}

// list has all events, with those that follow the tasks, in order of start and device.
func (s *Step) list(tail [][]timeline.Event) []timeline.Event {
	all := slices.Concat(s.events, slices.Concat(tail...))
	slices.SortStableFunc(all, compareStarts)
	return all
}

func compareStarts(a, b timeline.Event) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.At.Replica, b.At.Replica), cmp.Compare(a.At.Stage, b.At.Stage))
}

// stream yields events in order of start and device, with those on links or without. Of those of
// one device at one time, outputs come first.
func (s *Step) stream(tail [][]timeline.Event, links bool) iter.Seq[timeline.Event] {
	if s.lanes == nil {
		return slices.Values(s.list(tail))
	}
	return func(yield func(timeline.Event) bool) {
		var sources []source
		for i := range s.lanes {
			l := &s.lanes[i]
			if links {
				sources = append(sources, source{flow: l.forward}, source{flow: l.backward}, source{others: l.byStart()})
			}
			own := slices.Clip(l.others)
			for _, e := range tail[i] {
				own = append(own, other{len(l.tasks), e})
			}
			sources = append(sources, source{lane: l, others: own})
		}
		// The first of a heap of the sources' next events is the first of all.
		heap := make([]head, len(sources))
		for i := range sources {
			heap[i] = head{sources[i].start(), i}
		}
		slices.SortFunc(heap, func(a, b head) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.source, b.source)) })
		for len(heap) > 0 && heap[0].start < math.Inf(1) {
			of := &sources[heap[0].source]
			if !yield(of.take(&s.costs)) {
				return
			}
			now := head{of.start(), heap[0].source}
			i := 0
			for {
				next := 2*i + 1
				if next+1 < len(heap) && heap[next+1].before(heap[next]) {
					next++
				}
				if next >= len(heap) || !heap[next].before(now) {
					break
				}
				heap[i] = heap[next]
				i = next
			}
			heap[i] = now
		}
	}
}

// head is when the next event of a source begins.
type head struct {
	start  float64
	source int
}

func (a head) before(b head) bool {
	return a.start < b.start || a.start == b.start && a.source < b.source
}

// source has events in order of start: the transfers of a flow, or a device's tasks, if it has a
// lane, and others.
type source struct {
	flow   *flow
	lane   *lane
	others []other
	next   int
}

// start is when the next event begins; infinite: there is none.
func (s *source) start() float64 {
	switch {
	case s.flow != nil && s.next < s.flow.gone:
		return s.flow.times[s.next][0]
	case len(s.others) > 0 && (s.lane == nil || s.others[0].before == s.next):
		return s.others[0].event.Start
	case s.lane != nil && s.next < len(s.lane.times):
		return s.lane.times[s.next][0]
	}
	return math.Inf(1)
}

// take is the next event.
func (s *source) take(c *Costs) (e timeline.Event) {
	switch {
	case s.flow != nil:
		e = c.crossing(&s.flow.hop, timeline.Transfer, s.next)
		e.Start, e.End = s.flow.times[s.next][0], s.flow.times[s.next][1]
	case len(s.others) > 0 && (s.lane == nil || s.others[0].before == s.next):
		e = s.others[0].event
		s.others = s.others[1:]
		return e
	default:
		t := &s.lane.tasks[s.next]
		e = timeline.Event{At: s.lane.at, Kind: timeline.KindOf(*t), Micro: t.Micro, Start: s.lane.times[s.next][0], End: s.lane.times[s.next][1]}
	}
	s.next++
	return e
}
