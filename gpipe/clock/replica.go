package clock

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// replica is a discrete-event simulation of one replica, for all that direct leaves. At each
// instant it first takes in all that ends, then lets links and devices start what they can.
type replica struct {
	number   int
	meetings []meeting // by stage; replicas that meet share them
	costs    Costs
	now      float64
	devices  []device
	pieces   place.Pieces
	edges    []edge // forward ones, 0->1, 1->2, ..., then backward ones, 1->0, 2->1, ...
	links    []link // in the order of the first edge of each
	made     int    // outputs so far
	pending  endings
	events   []timeline.Event
	ends     []bool // by micro-batch: a group ends with its last B or W on a device
	uses     *exchanges

	// The links and devices that may be able to start something now.
	wakeLinks, wakeDevices []int
}

type device struct {
	tasks  []schedule.Task
	next   int // index in tasks
	busy   bool
	free   float64 // since when it has nothing to do
	chunks []chunk
	comes  []*edge // incoming ones, inputs before gradients

	left   []int // by micro-batch: B or W of its chunks that are to come
	ended  int   // the last micro-batch of the group that is to be added up next; as many as there are: the step has ended; -1: none
	groups int   // how many have been added up
	unsent []int // exchanges that have not left the device at that end
	over   bool  // the step has ended

	// Through the host: the output whose leg goes before anything else.
	ahead      *edge // nil: none
	aheadMicro int
}

// chunk has the edges of a piece of the network; nil at the network's ends.
type chunk struct {
	forward, backward *edge // outgoing
	inputs, gradients *edge // incoming
}

type ending struct {
	at    float64
	order int // of start: ties are taken in that order
	then  func()
}

type endings []ending

func (e endings) Len() int { return len(e) }
func (e endings) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e endings) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)   { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newReplica(number int, tasks [][]schedule.Task, micro int, c Costs) (*replica, error) {
	devices := len(tasks)
	placed := c.Placement.Or(devices)
	pieces := placed.Pieces()
	stages := pieces.Len()
	r := &replica{
		number: number, costs: c, pieces: pieces, ends: c.ends(number, devices, micro),
		devices: make([]device, devices), edges: make([]edge, 2*(stages-1)),
	}
	var err error
	if r.uses, err = newExchanges(c, number, devices); err != nil {
		return nil, err
	}
	for k := range r.devices {
		d := &r.devices[k]
		d.tasks, d.ended, d.chunks, d.left = tasks[k], -1, make([]chunk, len(pieces.On(k))), make([]int, micro)
		for m := range r.ends {
			d.left[m] = len(d.chunks)
		}
	}
	room := GradientSlots(tasks, placed, micro)
	for s := range stages - 1 {
		at, after := pieces.At(number, s), pieces.At(number, s+1)
		a, b := &r.devices[at.Stage].chunks[at.Chunk], &r.devices[after.Stage].chunks[after.Chunk]
		there, back := &r.edges[s], &r.edges[stages-1+s]
		*there = edge{hop: hop{from: at, to: after, boundary: at}, slots: micro}
		*back = edge{hop: hop{from: after, to: at, boundary: at, backward: true}, slots: room[s]}
		there.arrived, back.arrived = make([]bool, micro), make([]bool, micro)
		a.forward, b.inputs = there, there
		b.backward, a.gradients = back, back
	}
	index := map[ends]int{}
	for i := range r.edges {
		to := &r.devices[r.edges[i].to.Stage]
		to.comes = append(to.comes, &r.edges[i])
		pair := ends{r.edges[i].from.Stage, r.edges[i].to.Stage}
		if _, ok := index[pair]; !ok {
			index[pair] = len(r.links)
			r.links = append(r.links, link{index: len(r.links), local: pair.from == pair.to})
		}
	}
	for i := range r.edges {
		e := &r.edges[i]
		e.link = &r.links[index[ends{e.from.Stage, e.to.Stage}]]
		e.link.edges = append(e.link.edges, e)
	}
	return r, nil
}

// runReplicas runs the lists of all replicas on one time.
func runReplicas(tasks [][]schedule.Task, micro []int, c Costs) (all []*replica, err error) {
	stages, together := len(tasks)/len(micro), cmp.Or(c.Together, len(micro))
	var meetings []meeting
	for i, m := range micro {
		if i%together == 0 {
			meetings = make([]meeting, stages)
			for k := range meetings {
				meetings[k].replicas = together
			}
		}
		r, err := newReplica(i, tasks[i*stages:(i+1)*stages], m, c)
		if err != nil {
			return nil, err
		}
		r.meetings = meetings
		all = append(all, r)
		for k := range r.devices {
			if err := r.setup(k); err != nil {
				return nil, err
			}
			r.wakeDevices = append(r.wakeDevices, k)
		}
	}
	for {
		next := math.Inf(1)
		for _, r := range all {
			if err := r.startAll(); err != nil {
				return nil, err
			}
			if len(r.pending) > 0 {
				next = min(next, r.pending[0].at)
			}
		}
		if math.IsInf(next, 1) {
			return all, stuck(all)
		}
		for _, r := range all {
			r.now = next
		}
		for ended := true; ended; {
			ended = false
			for _, r := range all {
				for len(r.pending) > 0 && r.pending[0].at == next {
					heap.Pop(&r.pending).(ending).then()
					ended = true
				}
			}
		}
	}
}

// startAll lets links and devices start what they can.
func (r *replica) startAll() error {
	for len(r.wakeLinks) > 0 || len(r.wakeDevices) > 0 {
		links, devices := r.wakeLinks, r.wakeDevices
		r.wakeLinks, r.wakeDevices = nil, nil
		for _, i := range links {
			if err := r.carry(&r.links[i]); err != nil {
				return err
			}
		}
		for _, k := range devices {
			if err := r.work(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// at is the place of a device.
func (r *replica) at(k int) place.Place { return place.Place{Replica: r.number, Stage: k} }

// taskAt is the place of a device's task.
func (r *replica) taskAt(k int, t schedule.Task) place.Place {
	return place.Place{Replica: r.number, Stage: k, Chunk: t.Chunk}
}

// start records an event that starts now; then is called when it ends.
func (r *replica) start(e timeline.Event, seconds float64, then func()) error {
	return r.startAt(r.now, e, seconds, then)
}

// startAt is start for an event that starts now or later.
func (r *replica) startAt(at float64, e timeline.Event, seconds float64, then func()) error {
	if !duration(seconds) {
		return fmt.Errorf("clock: stage %d: %s takes %v seconds: want a finite time, not negative", e.At.Stage, e.Name(), seconds)
	}
	if e.Bytes < 0 {
		return fmt.Errorf("clock: stage %d: %s carries %d bytes: want 0 or more", e.At.Stage, e.Name(), e.Bytes)
	}
	e.Start, e.End = at, at+seconds
	r.until(e.End, then)
	r.events = append(r.events, e)
	return nil
}

// occupy is start for an event that has its device to itself.
func (r *replica) occupy(e timeline.Event, seconds float64, then func()) error {
	d := &r.devices[e.At.Stage]
	d.busy = true
	return r.start(e, seconds, func() {
		d.busy, d.free = false, r.now
		then()
		r.wakeDevices = append(r.wakeDevices, e.At.Stage)
	})
}

func (r *replica) setup(k int) error {
	if r.costs.Setup == nil {
		return nil
	}
	return r.occupy(timeline.Event{At: r.at(k), Kind: timeline.Setup, Micro: -1}, r.costs.Setup(r.at(k)), func() {})
}

// work lets device k start the next thing it has to do, if it can.
func (r *replica) work(k int) error {
	d := &r.devices[k]
	if d.busy {
		return nil
	}
	if e := d.ahead; e != nil {
		d.ahead = nil
		return r.toHost(e, d.aheadMicro)
	}
	if d.ended < 0 && d.next == len(d.tasks) && r.costs.Update != nil && !d.over {
		d.over, d.ended, d.unsent = true, len(r.ends), r.uses.sends[k]
	}
	if d.ended >= 0 {
		if err := r.endGroup(k); err != nil || d.busy {
			return err
		}
		if d.ended < 0 { // the step may have ended as well
			return r.work(k)
		}
	}
	if r.costs.Link.ThroughHost {
		for _, e := range d.comes {
			if e.link.local || len(e.queue) == 0 || e.slots == 0 {
				continue
			}
			return r.fromHost(e)
		}
	}
	if d.ended >= 0 || d.next == len(d.tasks) || d.waitsFor(d.tasks[d.next]) != "" {
		return nil
	}
	t := d.tasks[d.next]
	d.next++
	out := d.output(t)
	if out != nil {
		out.outbox++
	}
	return r.perform(t, k, func() {
		if t.Kind == schedule.Backward || t.Kind == schedule.BackwardWeights {
			if d.left[t.Micro]--; d.left[t.Micro] == 0 && r.ends[t.Micro] {
				d.ended, d.unsent = t.Micro, r.uses.sends[k]
			}
		}
		if timeline.KindOf(t).SendsGradient() {
			c := &d.chunks[t.Chunk]
			for _, e := range []*edge{c.inputs, c.gradients} {
				if e != nil {
					e.slots++
					r.wakeLinks = append(r.wakeLinks, e.link.index)
				}
			}
		}
		switch {
		case out == nil:
		case r.costs.Link.ThroughHost && !out.link.local:
			d.ahead, d.aheadMicro = out, t.Micro
		default:
			r.enqueue(out, t.Micro)
			r.wakeLinks = append(r.wakeLinks, out.link.index)
		}
	})
}

// output is the edge that the task's result leaves by, or nil.
func (d *device) output(t schedule.Task) *edge {
	switch t.Kind {
	case schedule.Forward:
		return d.chunks[t.Chunk].forward
	case schedule.Backward, schedule.BackwardInput:
		return d.chunks[t.Chunk].backward
	}
	return nil
}

// waitsFor says what keeps the task from starting on a free device; "" is nothing.
func (d *device) waitsFor(t schedule.Task) string {
	needs := d.chunks[t.Chunk].gradients
	what := "output gradient"
	switch {
	case t.Kind == schedule.Forward:
		needs, what = d.chunks[t.Chunk].inputs, "input"
	case t.Kind == schedule.Recompute && !t.AwaitGrad, t.Kind == schedule.BackwardWeights, t.Kind == schedule.Update:
		needs = nil
	}
	if needs != nil && !needs.arrived[t.Micro] {
		return fmt.Sprintf("its %s from stage %d", what, needs.from.Stage)
	}
	if out := d.output(t); out != nil && out.outbox == outboxSlots {
		return fmt.Sprintf("room in its outbox to stage %d", out.to.Stage)
	}
	return ""
}

// stuck returns an error if anything is left to do when nothing can end any more.
func stuck(all []*replica) error {
	for _, r := range all {
		for k, m := range r.meetings {
			if len(m.here) > 0 {
				return fmt.Errorf("clock: %d of %d replicas of stage %d meet: want as many meetings on each", len(m.here), m.replicas, k)
			}
		}
	}
	for _, r := range all {
		if err := r.stuck(); err != nil {
			return err
		}
	}
	return nil
}

func (r *replica) stuck() error {
	waiting, first := 0, ""
	for k := range r.devices {
		d := &r.devices[k]
		if d.next == len(d.tasks) && d.ended < 0 {
			continue
		}
		if waiting++; waiting > 1 {
			continue
		}
		if d.ended >= 0 {
			first = fmt.Sprintf("stage %d, after B%d, waits for the gradient of a shared weight", k, min(d.ended, len(r.ends)-1))
		} else {
			first = fmt.Sprintf("stage %d, %v waits for %s", k, d.tasks[d.next], d.waitsFor(d.tasks[d.next]))
		}
	}
	switch waiting {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("clock: deadlock: %s", first)
	}
	return fmt.Errorf("clock: deadlock: %s (%d stages wait)", first, waiting)
}
