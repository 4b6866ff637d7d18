package clock

import (
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// direct is the clock of one replica whose devices have one piece of the network each, and
// whose links are direct. What is carried first is then known without the times: outputs follow
// one another in the order of the sender's list. So each time is a maximum of times that are known
// before it, and devices run one after another, each as far as what it needs is known. Where
// something waits for its turn instead, as legs through the host do, outputs of several chunks
// on one link, or replicas that meet, time must pass in order: see replica.
type direct struct {
	costs   *Costs
	lanes   []lane
	ends    []bool // by micro-batch: a group ends with its B or W
	uses    *exchanges
	arrived [][]float64 // of each of uses.all: the ends of its transfers so far
	queue   []int       // devices that may be able to go on
	fine    bool        // no time or size is refused
}

// lane is a device, and what it has done.
type lane struct {
	at     place.Place
	tasks  []schedule.Task
	times  [][2]float64 // start and end of each task so far
	others []other
	sent   []other // on links, but for outputs
	free   float64 // since when it has nothing to do
	queued bool

	forward, backward *flow // outgoing; nil at the network's ends
	inputs, gradients *flow // incoming

	ended  int // as in device
	groups int
	called bool // what it sends at that end has left
	over   bool
}

// other is an event beside the tasks of a list, and the number of the task before which it comes.
type other struct {
	before int
	event  timeline.Event
}

// flow is what a device sends a neighbour, one micro-batch after another.
type flow struct {
	hop
	times [][2]float64 // start and end of each transfer; of outputs that have not gone yet, when they were made
	made  int          // outputs
	gone  int          // transfers whose times are known
	freed []float64    // of each of the receiver's slots: when it was last free again
	used  int          // outputs that the receiver has no more
}

// runDirect runs all lists, and returns nil where that is not for this clock: it may also be a
// deadlock, or a time that is refused, for which replica has the words.
func runDirect(number int, tasks [][]schedule.Task, micro int, c Costs) []lane {
	if c.Link.ThroughHost || c.Meetings != nil || !c.Placement.Or(len(tasks)).IsStraight() {
		return nil
	}
	uses, err := newExchanges(c, number, len(tasks))
	if err != nil {
		return nil
	}
	d := &direct{costs: &c, lanes: make([]lane, len(tasks)), ends: c.ends(number, len(tasks), micro), uses: uses, arrived: make([][]float64, len(uses.all)), fine: true}
	room := GradientSlots(tasks, c.Placement.Or(len(tasks)), micro)
	for k := range d.lanes {
		l := &d.lanes[k]
		*l = lane{at: place.Place{Replica: number, Stage: k}, tasks: tasks[k], times: make([][2]float64, 0, len(tasks[k])), ended: -1}
		if c.Setup != nil {
			d.occupy(l, timeline.Setup, -1, c.Setup(l.at))
		}
		if k > 0 {
			before := &d.lanes[k-1]
			there := &flow{hop: hop{from: before.at, to: l.at, boundary: before.at}, times: make([][2]float64, micro), freed: make([]float64, micro)}
			back := &flow{hop: hop{from: l.at, to: before.at, boundary: before.at, backward: true}, times: make([][2]float64, micro), freed: make([]float64, room[k-1])}
			before.forward, l.inputs, l.backward, before.gradients = there, there, back, back
		}
		d.wake(k)
	}
	for len(d.queue) > 0 {
		l := &d.lanes[d.queue[0]]
		d.queue = d.queue[1:]
		for d.next(l) {
		}
		l.queued = false
	}
	for i := range d.lanes {
		if l := &d.lanes[i]; !d.fine || len(l.times) < len(l.tasks) || l.ended >= 0 {
			return nil
		}
	}
	return d.lanes
}

func (d *direct) wake(k int) {
	if l := &d.lanes[k]; !l.queued {
		l.queued = true
		d.queue = append(d.queue, k)
	}
}

// seconds is a time that an event takes.
func (d *direct) seconds(seconds float64) float64 {
	d.fine = d.fine && duration(seconds)
	return seconds
}

// occupy adds an event beside the tasks of the list.
func (d *direct) occupy(l *lane, kind timeline.Kind, micro int, seconds float64) {
	start := l.free
	l.free += d.seconds(seconds)
	l.others = append(l.others, other{len(l.times), timeline.Event{At: l.at, Kind: kind, Micro: micro, Start: start, End: l.free}})
}

// next does the next thing that the device has to do, if all that it waits for is known.
func (d *direct) next(l *lane) bool {
	switch {
	case !d.fine:
		return false
	case l.ended >= 0:
		return d.endGroup(l)
	case len(l.times) == len(l.tasks):
		if d.costs.Update == nil || l.over {
			return false
		}
		l.over, l.ended, l.called = true, len(d.ends), false
		return true
	}
	t := &l.tasks[len(l.times)]
	start := l.free
	var needs, out *flow
	switch t.Kind {
	case schedule.Forward:
		needs, out = l.inputs, l.forward
	case schedule.Backward, schedule.BackwardInput:
		needs, out = l.gradients, l.backward
	case schedule.Recompute:
		if t.AwaitGrad {
			needs = l.gradients
		}
	}
	if needs != nil {
		if needs.gone <= t.Micro {
			return false
		}
		start = max(start, needs.times[t.Micro][1])
	}
	if out != nil && out.made >= outboxSlots {
		oldest := out.made - outboxSlots
		if out.gone <= oldest {
			return false
		}
		start = max(start, out.times[oldest][1])
	}
	l.free = start + d.seconds(d.costs.Task(place.Place{Replica: l.at.Replica, Stage: l.at.Stage, Chunk: t.Chunk}, *t))
	l.times = append(l.times, [2]float64{start, l.free})
	if timeline.KindOf(*t).SendsGradient() && l.gradients != nil {
		f := l.gradients
		f.freed[f.used%len(f.freed)] = l.free
		f.used++
		d.carry(f)
	}
	if out != nil {
		out.times[out.made][0] = l.free
		out.made++
		d.carry(out)
	}
	if t.Accumulates() && d.ends[t.Micro] {
		l.ended, l.called = t.Micro, false
	}
	return true
}

// carry works out the transfers whose slots are known to be free.
func (d *direct) carry(f *flow) {
	for ; f.gone < f.made && f.gone < f.used+len(f.freed); f.gone++ {
		start := f.times[f.gone][0]
		if f.gone > 0 {
			start = max(start, f.times[f.gone-1][1])
		}
		start = max(start, f.freed[f.gone%len(f.freed)])
		bytes := d.costs.bytes(&f.hop, f.gone)
		d.fine = d.fine && bytes >= 0
		f.times[f.gone] = [2]float64{start, start + d.seconds(d.costs.seconds(f.from, f.to, bytes))}
		d.wake(f.from.Stage)
		d.wake(f.to.Stage)
	}
}

// endGroup is what replica.endGroup is.
func (d *direct) endGroup(l *lane) bool {
	k, micro := l.at.Stage, l.ended
	last := micro == len(d.ends)
	if !l.called {
		l.called = true
		for _, i := range d.uses.sends[k] {
			if i >= d.uses.repeated && !last {
				continue
			}
			x := d.uses.all[i]
			e, pair := crossed(l.at.Replica, timeline.Transfer, x), ends{k, x.To.Stage}
			e.Start = max(l.free, d.uses.free[pair])
			e.End = e.Start + d.seconds(d.costs.seconds(x.From, x.To, x.Bytes))
			d.uses.free[pair] = e.End
			l.sent = append(l.sent, other{0, e})
			d.arrived[i] = append(d.arrived[i], e.End)
			d.wake(x.To.Stage)
		}
	}
	from := l.free
	for _, i := range d.uses.gets[k] {
		before := l.groups
		if i >= d.uses.repeated {
			if before = 0; !last {
				continue
			}
		}
		if len(d.arrived[i]) <= before {
			return false
		}
		from = max(from, d.arrived[i][before])
	}
	l.free, l.ended = from, -1
	if last {
		return true
	}
	l.groups++
	if seconds := d.costs.Group(l.at, micro); seconds != 0 {
		d.occupy(l, timeline.Reduce, micro, seconds)
	}
	return true
}

// byStart orders what a device has sent over several links.
func (l *lane) byStart() []other {
	slices.SortStableFunc(l.sent, func(a, b other) int { return compareStarts(a.event, b.event) })
	return l.sent
}
