package timeline

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
)

// Costs gives the virtual clock its durations, in seconds. Each must be finite
// and at least 0.
type Costs struct {
	Task     func(at place.Place, t schedule.Task) float64 // required
	Setup    func(at place.Place) float64                  // before the stage's first task; nil: none
	Update   func(at place.Place) float64                  // after a barrier over all stages; nil: neither update nor barrier
	Boundary func(at place.Place, micro int) int64         // bytes that the place sends forward; the gradient that comes back has as many; nil: 0
	Link     Link
	// Group is the time for adding up groups after the B of a micro-batch that ends one,
	// during which the device is occupied; nil: none. Where it is not 0 on one stage of a
	// replica, all of its stages exchange (see Exchanges) before they add up.
	Group func(at place.Place, micro int) float64
	// Meetings are the times at which a task meets the same task of other replicas, in
	// order; nil: none. Replicas that meet have as many. Together is how many consecutive
	// replicas meet, and divides their number; 0: all.
	Meetings func(at place.Place, t schedule.Task) []Meeting
	Together int
	// Replicas is the number of copies of the pipeline; 0 means one. Reduce is the time
	// that adding up gradients takes on a place, once the last of its replicas has done its
	// tasks; it occupies the device. Nil or 0: none.
	Replicas int
	Reduce   func(at place.Place) float64
	// Rows is the time that gathering rows of tied tables' gradients, and adding them up,
	// takes on a place after Reduce; else as that.
	Rows func(at place.Place) float64
	// Gather is the time that handing on updated weights takes on a place, once the last of
	// its replicas has updated; it occupies the device. Nil or 0: none.
	Gather func(at place.Place) float64
	// Placement is where the pieces of the network are, the same in all replicas; zero: one
	// on each device, in order. Functions of a place and a task get the place of the task's
	// chunk, all others that of the device.
	Placement schedule.Placement
	// Exchanges happen at the end of each group but the last, and, with Update, when their
	// sender has done its list.
	Exchanges []Exchange
	// Last are those of a replica at the end of the step alone, after Exchanges; nil: none.
	Last func(replica int) []Exchange
}

// Meeting is a point within a task at which the same stage of several replicas adds up a
// value of each. No replica goes on before the last has come; then all do, after the
// longest of their Seconds.
type Meeting struct {
	At      float64 // the part of the task's own time that comes before it, 0 to 1
	Seconds float64 // that the meeting takes once all are there
	Bytes   int64   // of the value
}

// Link is the connection between devices of neighbouring pieces of the network. There is
// one for each such pair and direction, which carries what is produced first first; a transfer
// takes Latency + bytes/Bandwidth. Chunks of one device hand over without a link, at once.
// The zero value is free: its transfers take no time.
type Link struct {
	Bandwidth float64 // bytes per second; 0: infinite
	Latency   float64 // seconds per transfer (per leg, through the host)
	// ThroughHost: the devices reach each other only by way of the host's
	// memory (GPipe, section 3: P100 without NVLink). A transfer is then two
	// legs, from device to host and from host to device, each as long as a
	// direct transfer and each occupying its device, which computes nothing
	// meanwhile.
	ThroughHost bool
}

func (l Link) seconds(bytes int64) float64 {
	if l.Bandwidth == 0 {
		return l.Latency
	}
	return l.Latency + float64(bytes)/l.Bandwidth
}

// Slots of the boundary buffers. They bound how far neighbours drift apart
// without bounding what a schedule needs: see Replay.
const (
	gradientSlots = 2 // output gradients that a receiver holds
	outboxSlots   = 2 // outputs that a sender holds, in each direction
)

// Replay runs each stage's list on a virtual clock and returns what happened, in
// order of start and device. Everything starts at the earliest instant at which
// all that it waits for is over:
//
//   - A device does one thing at a time, Setup first, then its list in order.
//   - F(k,m) waits for its input from stage k-1, B(k,m) or I(k,m) for its output gradient
//     from stage k+1, and R(k,m) for that gradient only if AwaitGrad says so.
//     The last stage's gradient is made by its own F, where the loss is. W waits for
//     nothing. With several chunks on a device, stages are the pieces of the network.
//   - A transfer waits until its data is produced, its link has carried all that
//     was produced before it, and the receiver has a slot free: one per
//     micro-batch for activations, which is always free, and two for gradients,
//     each freed at the end of the B or I that consumes it (see GradientSlots).
//   - A task with Meetings waits at each of them for the same stage of the other
//     replicas that meet with its own.
//   - A task whose output goes to a neighbour waits until its outbox in that
//     direction has a slot free: two in each direction, each occupied from the
//     task's start to the end of the transfer. So a task that would write a third
//     waits for the oldest.
//   - Through the host, the sender's leg occupies its device right after the
//     task that produced the data, so no task ever waits for the outbox; the host
//     has room for everything. The receiver's leg is served, in order of
//     production, as soon as the sender's is over, the receiver has a slot, and
//     the device is between tasks; legs go before the next task, activations
//     before gradients. The devices are busy then, and no link is.
//   - After the B that ends a group, and with Update after a stage's last task,
//     Exchanges leave a stage, and the receiver waits for them. They do not wait for
//     each other, unless they have the same ends, or occupy a device on their way
//     through the host.
//   - With Update, a device that has nothing left to do waits at a Barrier until
//     all have (the global norm needs every gradient), then updates.
//
// A crossing that takes no time is in the timeline as well, as an event (or two
// legs) of length 0 that carries the bytes.
//
// The clock is max-plus: each time is a sum of durations along one path, added
// up in order, so a replay has the same bits on every machine.
//
// Lists need not come from schedule.Build, but each stage must run F and B of the
// same micro-batches 0..M-1 once each, with R between them unless F keeps its
// residuals. If stages wait for each other in a circle, the error names the first
// of them and its task.
func Replay(tasks [][]schedule.Task, c Costs) (*Timeline, error) {
	return replay(tasks, c, true)
}

// replay is Replay, with or without the barrier before the updates.
func replay(tasks [][]schedule.Task, c Costs, barrier bool) (*Timeline, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	replicas := max(c.Replicas, 1)
	if len(tasks)%replicas != 0 {
		return nil, fmt.Errorf("timeline: lists of %d stages for %d replicas: want as many for each", len(tasks), replicas)
	}
	stages := len(tasks) / replicas
	together := cmp.Or(c.Together, replicas)
	if together < 1 || replicas%together != 0 {
		return nil, fmt.Errorf("timeline: %d of %d replicas meet together: want a number that divides theirs, or 0 for all", together, replicas)
	}
	var all []*clock
	var meetings []meeting
	for replica := range replicas {
		if replica%together == 0 {
			meetings = make([]meeting, stages)
			for k := range meetings {
				meetings[k].replicas = together
			}
		}
		lists := tasks[replica*stages : (replica+1)*stages]
		micro, err := checkLists(lists, c.Placement.Or(stages))
		if err != nil {
			return nil, err
		}
		r, err := newClock(replica, lists, micro, c)
		if err != nil {
			return nil, err
		}
		r.meetings = meetings
		all = append(all, r)
	}
	if err := run(all); err != nil {
		return nil, err
	}
	if err := finish(all, barrier); err != nil {
		return nil, err
	}
	tl := &Timeline{Devices: len(tasks), Replicas: c.Replicas, Placement: c.Placement}
	for _, r := range all {
		tl.Events = append(tl.Events, r.events...)
	}
	slices.SortStableFunc(tl.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.At.Replica, b.At.Replica), cmp.Compare(a.At.Stage, b.At.Stage))
	})
	return tl, nil
}

func (c Costs) check() error {
	switch {
	case c.Task == nil:
		return fmt.Errorf("timeline: Costs.Task is nil: want a function")
	case !(c.Link.Bandwidth >= 0):
		return fmt.Errorf("timeline: link bandwidth %v: want bytes per second, or 0 for infinite", c.Link.Bandwidth)
	case !duration(c.Link.Latency):
		return fmt.Errorf("timeline: link latency %v: want seconds, finite and not negative", c.Link.Latency)
	}
	return nil
}

func duration(seconds float64) bool { return seconds >= 0 && !math.IsInf(seconds, 1) }

// checkLists returns the number of micro-batches.
func checkLists(tasks [][]schedule.Task, p schedule.Placement) (micro int, err error) {
	if len(tasks) == 0 {
		return 0, fmt.Errorf("timeline: no stages: want a task list for each")
	}
	if err := p.Check(); err != nil {
		return 0, fmt.Errorf("timeline: %w", err)
	}
	if p.Devices != len(tasks) {
		return 0, fmt.Errorf("timeline: lists of %d devices, and a placement on %d: want as many", len(tasks), p.Devices)
	}
	chunks := p.Chunks()
	for k, list := range tasks {
		forwards := make([]int, len(chunks[k]))
		for _, t := range list {
			if t.Chunk < 0 || t.Chunk >= len(forwards) {
				return 0, fmt.Errorf("timeline: stage %d: task %v: want chunks 0 to %d", k, t, len(forwards)-1)
			}
			if t.Kind == schedule.Forward {
				forwards[t.Chunk]++
			}
		}
		if k == 0 {
			micro = forwards[0]
		}
		for c, n := range forwards {
			if n != micro {
				of := fmt.Sprintf("stage %d", k)
				if c > 0 {
					of = fmt.Sprintf("stage %d, chunk %d,", k, c)
				}
				return 0, fmt.Errorf("timeline: %s has %d forward tasks, stage 0 has %d: want as many on every stage", of, n, micro)
			}
		}
	}
	type progress uint8
	const (
		fresh progress = iota
		forwarded
		ready // has residuals
		halved
		done
	)
	for k, list := range tasks {
		state := make([][]progress, len(chunks[k]))
		for c := range state {
			state[c] = make([]progress, micro)
		}
		for _, t := range list {
			if t.Micro < 0 || t.Micro >= micro {
				return 0, fmt.Errorf("timeline: stage %d: task %v: want micro-batches 0 to %d", k, t, micro-1)
			}
			from, to, want := fresh, forwarded, "F once, first"
			switch t.Kind {
			case schedule.Forward:
				if t.Keep {
					to = ready
				}
			case schedule.Recompute:
				from, to, want = forwarded, ready, "R once, after an F that keeps nothing"
			case schedule.Backward:
				from, to, want = ready, done, "B once, after an F that keeps its residuals or an R"
			case schedule.BackwardInput:
				from, to, want = ready, halved, "I once, after an F that keeps its residuals or an R"
			case schedule.BackwardWeights:
				from, to, want = halved, done, "W once, after I"
			default:
				return 0, fmt.Errorf("timeline: stage %d: task %v of unknown kind: want F, R, B, I or W", k, t)
			}
			if state[t.Chunk][t.Micro] != from {
				return 0, fmt.Errorf("timeline: stage %d: task %v out of place: want %s", k, t, want)
			}
			state[t.Chunk][t.Micro] = to
		}
		for _, of := range state {
			if m := slices.IndexFunc(of, func(s progress) bool { return s != done }); m >= 0 {
				return 0, fmt.Errorf("timeline: stage %d: micro-batch %d has no B: want F, B and, where due, R of each", k, m)
			}
		}
	}
	return micro, nil
}

// GradientSlots is how many output gradients each piece of the network has room for: two,
// or with lists of several chunks, or that split B, as many as are ahead if every task takes
// the same time. So such a schedule is not held up by room, and cannot wait for it in a circle.
func GradientSlots(tasks [][]schedule.Task, p schedule.Placement, micro int) []int {
	slots := make([]int, p.Stages())
	ahead := slots
	split := func(t schedule.Task) bool { return t.Kind == schedule.BackwardInput }
	if !p.IsStraight() || slices.ContainsFunc(tasks, func(list []schedule.Task) bool { return slices.ContainsFunc(list, split) }) {
		ahead = schedule.GradientsAhead(tasks, p, micro)
	}
	for s := range slots {
		slots[s] = min(micro, max(gradientSlots, ahead[s]))
	}
	return slots
}

// clock is a discrete-event simulation of one replica. At each instant it first takes in
// all that ends, then lets links and devices start what they can.
type clock struct {
	replica  int
	meetings []meeting // by stage; replicas that meet share them
	costs    Costs
	now      float64
	devices  []device
	pieces   place.Pieces
	edges    []edge // forward ones, 0->1, 1->2, ..., then backward ones, 1->0, 2->1, ...
	links    []link // in the order of the first edge of each
	made     int    // outputs so far
	pending  endings
	events   []Event
	ends     []bool // by micro-batch: a group ends with its last B or W on a device
	uses     exchanges

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
	ended  int   // the last micro-batch of the group that is to be added up next; -1: none
	groups int   // how many have been added up
	unsent []int // Exchanges that have not left the device at that group's end

	// Through the host: the output whose leg goes before anything else.
	ahead      *edge // nil: none
	aheadMicro int
}

// chunk has the edges of a piece of the network; nil at the network's ends.
type chunk struct {
	forward, backward *edge // outgoing
	inputs, gradients *edge // incoming
}

// edge is what one piece of the network sends a neighbour, and its slots there.
type edge struct {
	from, to place.Place
	boundary place.Place // that of the first of both in the order of layers
	backward bool
	link     *link
	queue    []output // ready to go (through the host: in its memory) and not gone yet, oldest first
	arrived  []bool   // by micro-batch
	outbox   int      // sender's slots that are occupied
	slots    int      // receiver's slots that are free
}

// output is what a task has made, in the order of their making.
type output struct{ micro, made int }

// link is a direction between two devices, which carries one thing at a time. Within a
// device it takes no time.
type link struct {
	index int
	local bool
	edges []*edge
	busy  bool // carrying; through the host, the devices are
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

func newClock(replica int, tasks [][]schedule.Task, micro int, c Costs) (*clock, error) {
	devices := len(tasks)
	placed := c.Placement.Or(devices)
	pieces := piecesOf(placed, devices)
	stages := pieces.Len()
	r := &clock{
		replica: replica, costs: c, pieces: pieces, ends: make([]bool, micro),
		devices: make([]device, devices), edges: make([]edge, 2*(stages-1)),
	}
	var err error
	if r.uses, err = newExchanges(c.Exchanges, devices); err != nil {
		return nil, err
	}
	for k := range r.devices {
		d := &r.devices[k]
		d.tasks, d.ended, d.chunks, d.left = tasks[k], -1, make([]chunk, len(pieces.On(k))), make([]int, micro)
		for m := range r.ends {
			d.left[m] = len(d.chunks)
			r.ends[m] = r.ends[m] || c.Group != nil && c.Group(r.at(k), m) > 0
		}
	}
	room := GradientSlots(tasks, placed, micro)
	for s := range stages - 1 {
		at, after := pieces.At(replica, s), pieces.At(replica, s+1)
		a, b := &r.devices[at.Stage].chunks[at.Chunk], &r.devices[after.Stage].chunks[after.Chunk]
		there, back := &r.edges[s], &r.edges[stages-1+s]
		*there = edge{from: at, to: after, boundary: at, slots: micro}
		*back = edge{from: after, to: at, boundary: at, slots: room[s], backward: true}
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

// run runs the lists of all replicas on one time.
func run(all []*clock) error {
	for _, r := range all {
		for k := range r.devices {
			if err := r.setup(k); err != nil {
				return err
			}
			r.wakeDevices = append(r.wakeDevices, k)
		}
	}
	for {
		next := math.Inf(1)
		for _, r := range all {
			if err := r.startAll(); err != nil {
				return err
			}
			if len(r.pending) > 0 {
				next = min(next, r.pending[0].at)
			}
		}
		if math.IsInf(next, 1) {
			return stuck(all)
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
func (r *clock) startAll() error {
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
func (r *clock) at(k int) place.Place { return place.Place{Replica: r.replica, Stage: k} }

// taskAt is the place of a device's task.
func (r *clock) taskAt(k int, t schedule.Task) place.Place {
	return place.Place{Replica: r.replica, Stage: k, Chunk: t.Chunk}
}

// start records an event that starts now; then is called when it ends.
func (r *clock) start(e Event, seconds float64, then func()) error {
	return r.startAt(r.now, e, seconds, then)
}

// startAt is start for an event that starts now or later.
func (r *clock) startAt(at float64, e Event, seconds float64, then func()) error {
	if !duration(seconds) {
		return fmt.Errorf("timeline: stage %d: %s takes %v seconds: want a finite time, not negative", e.At.Stage, e.what(), seconds)
	}
	if e.Bytes < 0 {
		return fmt.Errorf("timeline: stage %d: %s carries %d bytes: want 0 or more", e.At.Stage, e.what(), e.Bytes)
	}
	e.Start, e.End = at, at+seconds
	r.until(e.End, then)
	r.events = append(r.events, e)
	return nil
}

// occupy is start for an event that has its device to itself.
func (r *clock) occupy(e Event, seconds float64, then func()) error {
	d := &r.devices[e.At.Stage]
	d.busy = true
	return r.start(e, seconds, func() {
		d.busy, d.free = false, r.now
		then()
		r.wakeDevices = append(r.wakeDevices, e.At.Stage)
	})
}

func (r *clock) setup(k int) error {
	if r.costs.Setup == nil {
		return nil
	}
	return r.occupy(Event{At: r.at(k), Kind: Setup, Micro: -1}, r.costs.Setup(r.at(k)), func() {})
}

// work lets device k start the next thing it has to do, if it can.
func (r *clock) work(k int) error {
	d := &r.devices[k]
	if d.busy {
		return nil
	}
	if e := d.ahead; e != nil {
		d.ahead = nil
		return r.toHost(e, d.aheadMicro)
	}
	if d.ended >= 0 {
		if err := r.endGroup(k); err != nil || d.busy {
			return err
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
		if kindOf(t).SendsGradient() {
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

// enqueue notes that an edge's output has been made.
func (r *clock) enqueue(e *edge, micro int) {
	e.queue = append(e.queue, output{micro, r.made})
	r.made++
}

func kindOf(t schedule.Task) Kind {
	return [...]Kind{
		schedule.Forward: Forward, schedule.Recompute: Recompute, schedule.Backward: Backward,
		schedule.BackwardInput: BackwardInput, schedule.BackwardWeights: BackwardWeights,
	}[t.Kind]
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
	case t.Kind == schedule.Recompute && !t.AwaitGrad, t.Kind == schedule.BackwardWeights:
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

// carry lets a direct link start its next transfer, if it can: of what is ready and has a
// slot, the oldest.
func (r *clock) carry(l *link) error {
	if l.local {
		return r.handOver(l)
	}
	if r.costs.Link.ThroughHost || l.busy {
		return nil
	}
	var of *edge
	for _, e := range l.edges {
		if len(e.queue) > 0 && e.slots > 0 && (of == nil || e.queue[0].made < of.queue[0].made) {
			of = e
		}
	}
	if of == nil {
		return nil
	}
	e := r.crossing(of, Transfer, of.from, of.to, of.queue[0].micro)
	of.queue = of.queue[1:]
	l.busy = true
	of.slots--
	return r.start(e, r.costs.Link.seconds(e.Bytes), func() {
		l.busy = false
		of.outbox--
		of.arrived[e.Micro] = true
		r.wakeLinks = append(r.wakeLinks, l.index)
		r.wakeDevices = append(r.wakeDevices, of.from.Stage, of.to.Stage)
	})
}

// handOver gives what chunks of a device have made to their neighbours on it.
func (r *clock) handOver(l *link) error {
	for _, e := range l.edges {
		for len(e.queue) > 0 && e.slots > 0 {
			e.arrived[e.queue[0].micro] = true
			e.queue = e.queue[1:]
			e.slots--
			e.outbox--
			r.wakeDevices = append(r.wakeDevices, e.to.Stage)
		}
	}
	return nil
}

// toHost starts the leg of a transfer that occupies its sender.
func (r *clock) toHost(l *edge, micro int) error {
	e := r.crossing(l, ToHost, l.from, l.to, micro)
	return r.occupy(e, r.costs.Link.seconds(e.Bytes), func() {
		l.outbox--
		r.enqueue(l, micro)
		r.wakeDevices = append(r.wakeDevices, l.to.Stage)
	})
}

// fromHost starts the leg that occupies the receiver.
func (r *clock) fromHost(l *edge) error {
	e := r.crossing(l, FromHost, l.to, l.from, l.queue[0].micro)
	l.queue = l.queue[1:]
	l.slots--
	return r.occupy(e, r.costs.Link.seconds(e.Bytes), func() { l.arrived[e.Micro] = true })
}

func (r *clock) crossing(l *edge, kind Kind, at, peer place.Place, micro int) Event {
	e := Event{At: at, Peer: peer, Kind: kind, Micro: micro, Backward: l.backward}
	if r.costs.Boundary != nil {
		e.Bytes = r.costs.Boundary(l.boundary, micro)
	}
	return e
}

// stuck returns an error if anything is left to do when nothing can end any more.
func stuck(all []*clock) error {
	for _, r := range all {
		for k, m := range r.meetings {
			if len(m.here) > 0 {
				return fmt.Errorf("timeline: %d of %d replicas of stage %d meet: want as many meetings on each", len(m.here), m.replicas, k)
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

func (r *clock) stuck() error {
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
			first = fmt.Sprintf("stage %d, after B%d, waits for the gradient of a shared weight", k, d.ended)
		} else {
			first = fmt.Sprintf("stage %d, %v waits for %s", k, d.tasks[d.next], d.waitsFor(d.tasks[d.next]))
		}
	}
	switch waiting {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("timeline: deadlock: %s", first)
	}
	return fmt.Errorf("timeline: deadlock: %s (%d stages wait)", first, waiting)
}

// finish adds what follows the last tasks of all replicas: the addition of their
// gradients, the barrier, if wanted, and Update.
func finish(all []*clock, barrier bool) error {
	costs := all[0].costs
	if costs.Update == nil {
		return nil
	}
	for _, r := range all {
		if err := r.exchange(); err != nil {
			return err
		}
	}
	if err := cmp.Or(together(all, Reduce, costs.Reduce), together(all, Rows, costs.Rows)); err != nil {
		return err
	}
	var last float64
	for _, r := range all {
		for k := range r.devices {
			last = max(last, r.devices[k].free)
		}
	}
	for _, r := range all {
		for k := range r.devices {
			r.now = r.devices[k].free
			if barrier {
				r.events = append(r.events, Event{At: r.at(k), Kind: Barrier, Micro: -1, Start: r.now, End: last})
				r.now = last
			}
			seconds := costs.Update(r.at(k))
			if err := r.occupy(Event{At: r.at(k), Kind: Update, Micro: -1}, seconds, func() {}); err != nil {
				return err
			}
			r.devices[k].free = r.now + seconds
		}
	}
	return together(all, Gather, costs.Gather)
}

// together makes every stage of all replicas do something at the same time, once the
// last of them is free. It moves pieces between all of them, so all finish with the slowest.
func together(all []*clock, kind Kind, cost func(place.Place) float64) error {
	if cost == nil {
		return nil
	}
	for k := range all[0].devices {
		var from, longest float64
		for _, r := range all {
			from = max(from, r.devices[k].free)
			seconds := cost(r.at(k))
			if !duration(seconds) {
				return fmt.Errorf("timeline: %v: %v takes %v seconds: want a finite time, not negative", r.at(k), kind, seconds)
			}
			longest = max(longest, seconds)
		}
		if longest == 0 {
			continue
		}
		for _, r := range all {
			r.devices[k].free = from + longest
			r.events = append(r.events, Event{At: r.at(k), Kind: kind, Micro: -1, Start: from, End: from + longest})
		}
	}
	return nil
}
