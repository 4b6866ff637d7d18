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
	// during which the device is occupied; nil: none. If it is not 0 anywhere, stages that
	// exchange (see Exchanges) wait for each other there.
	Group func(at place.Place, micro int) float64
	// Replicas is the number of copies of the pipeline; 0 means one. Reduce is the time
	// that adding up gradients takes on a place, once the last of its replicas has done its
	// tasks; it occupies the device. Nil or 0: none.
	Replicas int
	Reduce   func(at place.Place) float64
	// Gather is the time that handing on updated weights takes on a place, once the last of
	// its replicas has updated; it occupies the device. Nil or 0: none.
	Gather func(at place.Place) float64
	// Exchanges happen when their sender has done its list, before the barrier
	// and only with Update.
	Exchanges []Exchange
}

// Exchange is something that one stage of a replica sends another of the same, neighbour or not, once
// all its tasks are done: the gradient of a weight that both have. It takes as
// long as a transfer between neighbours, and several between two stages follow
// one another.
type Exchange struct {
	From, To place.Place
	Bytes    int64
}

// Link is the connection between neighbouring stages. There is one for each
// neighbouring pair and direction; a transfer takes Latency + bytes/Bandwidth.
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
//   - F(k,m) waits for its input from stage k-1, B(k,m) for its output gradient
//     from stage k+1, and R(k,m) for that gradient only if AwaitGrad says so.
//     The last stage's gradient is made by its own F, where the loss is.
//   - A transfer waits until its data is produced, its link has carried all that
//     was produced before it, and the receiver has a slot free: one per
//     micro-batch for activations, which is always free, and two for gradients,
//     each freed at the end of the B that consumes it.
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
//   - With Update, Exchanges follow a stage's last task, and the receiver waits
//     for them. They do not wait for each other, unless they have the same ends,
//     or occupy a device on their way through the host.
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
	var all []*clock
	for replica := range replicas {
		lists := tasks[replica*stages : (replica+1)*stages]
		micro, err := checkLists(lists)
		if err != nil {
			return nil, err
		}
		r := newClock(replica, lists, micro, c)
		if err := r.run(); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if err := finish(all, barrier); err != nil {
		return nil, err
	}
	tl := &Timeline{Devices: len(tasks), Replicas: c.Replicas}
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
func checkLists(tasks [][]schedule.Task) (micro int, err error) {
	if len(tasks) == 0 {
		return 0, fmt.Errorf("timeline: no stages: want a task list for each")
	}
	for k, list := range tasks {
		forwards := 0
		for _, t := range list {
			if t.Kind == schedule.Forward {
				forwards++
			}
		}
		if k == 0 {
			micro = forwards
		}
		if forwards != micro {
			return 0, fmt.Errorf("timeline: stage %d has %d forward tasks, stage 0 has %d: want as many on every stage", k, forwards, micro)
		}
	}
	type progress uint8
	const (
		fresh progress = iota
		forwarded
		ready // has residuals
		done
	)
	for k, list := range tasks {
		state := make([]progress, micro)
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
			default:
				return 0, fmt.Errorf("timeline: stage %d: task %v of unknown kind: want F, R or B", k, t)
			}
			if state[t.Micro] != from {
				return 0, fmt.Errorf("timeline: stage %d: task %v out of place: want %s", k, t, want)
			}
			state[t.Micro] = to
		}
		if m := slices.IndexFunc(state, func(s progress) bool { return s != done }); m >= 0 {
			return 0, fmt.Errorf("timeline: stage %d: micro-batch %d has no B: want F, B and, where due, R of each", k, m)
		}
	}
	return micro, nil
}

// clock is a discrete-event simulation. At each instant it first takes in all
// that ends, then lets links and devices start what they can.
type clock struct {
	replica int
	costs   Costs
	now     float64
	devices []device
	links   []link // forward ones, 0->1, 1->2, ..., then backward ones, 1->0, 2->1, ...
	pending endings
	events  []Event

	// The links and devices that may be able to start something now.
	wakeLinks, wakeDevices []int
}

type device struct {
	tasks []schedule.Task
	next  int // index in tasks
	busy  bool
	free  float64 // since when it has nothing to do

	forward, backward *link // outgoing; nil at the pipeline's ends
	inputs, gradients *link // incoming; nil at the pipeline's ends

	grouping float64 // the time for adding up the group that has just ended; 0: none
	grouped  int     // its last micro-batch

	// Through the host: the output whose leg goes before anything else.
	unsent      *link // nil: none
	unsentMicro int
}

type link struct {
	index    int
	from, to int
	backward bool
	queue    []int  // micro-batches ready to go (through the host: in its memory) and not gone yet, oldest first
	arrived  []bool // by micro-batch
	outbox   int    // sender's slots that are occupied
	slots    int    // receiver's slots that are free
	busy     bool   // carrying; through the host, the devices are
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

func newClock(replica int, tasks [][]schedule.Task, micro int, c Costs) *clock {
	stages := len(tasks)
	r := &clock{replica: replica, costs: c, devices: make([]device, stages), links: make([]link, 2*(stages-1))}
	for k := range r.devices {
		r.devices[k].tasks = tasks[k]
	}
	for k := range stages - 1 {
		a, b := &r.devices[k], &r.devices[k+1]
		there, back := &r.links[k], &r.links[stages-1+k]
		*there = link{index: k, from: k, to: k + 1, slots: micro}
		*back = link{index: stages - 1 + k, from: k + 1, to: k, slots: gradientSlots, backward: true}
		there.arrived, back.arrived = make([]bool, micro), make([]bool, micro)
		a.forward, b.inputs = there, there
		b.backward, a.gradients = back, back
	}
	return r
}

func (r *clock) run() error {
	for k := range r.devices {
		if err := r.setup(k); err != nil {
			return err
		}
		r.wakeDevices = append(r.wakeDevices, k)
	}
	for {
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
		if len(r.pending) == 0 {
			return r.stuck()
		}
		r.now = r.pending[0].at
		for len(r.pending) > 0 && r.pending[0].at == r.now {
			heap.Pop(&r.pending).(ending).then()
		}
	}
}

// at is the place of a stage.
func (r *clock) at(k int) place.Place { return place.Place{Replica: r.replica, Stage: k} }

// start records an event that starts now; then is called when it ends.
func (r *clock) start(e Event, seconds float64, then func()) error {
	if !duration(seconds) {
		return fmt.Errorf("timeline: stage %d: %s takes %v seconds: want a finite time, not negative", e.At.Stage, e.what(), seconds)
	}
	if e.Bytes < 0 {
		return fmt.Errorf("timeline: stage %d: %s carries %d bytes: want 0 or more", e.At.Stage, e.what(), e.Bytes)
	}
	e.Start, e.End = r.now, r.now+seconds
	heap.Push(&r.pending, ending{at: e.End, order: len(r.events), then: then})
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
	if l := d.unsent; l != nil {
		d.unsent = nil
		return r.toHost(l, d.unsentMicro)
	}
	if seconds := d.grouping; seconds > 0 {
		d.grouping = 0
		return r.occupy(Event{At: r.at(k), Kind: Reduce, Micro: d.grouped}, seconds, func() {})
	}
	if r.costs.Link.ThroughHost {
		for _, l := range []*link{d.inputs, d.gradients} {
			if l != nil && len(l.queue) > 0 && l.slots > 0 {
				return r.fromHost(l)
			}
		}
	}
	if d.next == len(d.tasks) || d.waitsFor(d.tasks[d.next]) != "" {
		return nil
	}
	t := d.tasks[d.next]
	d.next++
	out := d.output(t)
	if out != nil {
		out.outbox++
	}
	return r.occupy(Event{At: r.at(k), Kind: kindOf(t), Micro: t.Micro}, r.costs.Task(r.at(k), t), func() {
		if t.Kind == schedule.Backward {
			if r.costs.Group != nil {
				d.grouping, d.grouped = r.costs.Group(r.at(k), t.Micro), t.Micro
			}
			for _, l := range []*link{d.inputs, d.gradients} {
				if l != nil {
					l.slots++
					r.wakeLinks = append(r.wakeLinks, l.index)
				}
			}
		}
		switch {
		case out == nil:
		case r.costs.Link.ThroughHost:
			d.unsent, d.unsentMicro = out, t.Micro
		default:
			out.queue = append(out.queue, t.Micro)
			r.wakeLinks = append(r.wakeLinks, out.index)
		}
	})
}

func kindOf(t schedule.Task) Kind {
	switch t.Kind {
	case schedule.Recompute:
		return Recompute
	case schedule.Backward:
		return Backward
	}
	return Forward
}

// output is the link that the task's result leaves by, or nil.
func (d *device) output(t schedule.Task) *link {
	switch t.Kind {
	case schedule.Forward:
		return d.forward
	case schedule.Backward:
		return d.backward
	}
	return nil
}

// waitsFor says what keeps the task from starting on a free device; "" is nothing.
func (d *device) waitsFor(t schedule.Task) string {
	needs := d.gradients
	what := "output gradient"
	switch {
	case t.Kind == schedule.Forward:
		needs, what = d.inputs, "input"
	case t.Kind == schedule.Recompute && !t.AwaitGrad:
		needs = nil
	}
	if needs != nil && !needs.arrived[t.Micro] {
		return fmt.Sprintf("its %s from stage %d", what, needs.from)
	}
	if out := d.output(t); out != nil && out.outbox == outboxSlots {
		return fmt.Sprintf("room in its outbox to stage %d", out.to)
	}
	return ""
}

// carry lets a direct link start its next transfer, if it can.
func (r *clock) carry(l *link) error {
	if r.costs.Link.ThroughHost || l.busy || len(l.queue) == 0 || l.slots == 0 {
		return nil
	}
	e := r.crossing(l, Transfer, l.from, l.to, l.queue[0])
	l.queue = l.queue[1:]
	l.busy = true
	l.slots--
	return r.start(e, r.costs.Link.seconds(e.Bytes), func() {
		l.busy = false
		l.outbox--
		l.arrived[e.Micro] = true
		r.wakeLinks = append(r.wakeLinks, l.index)
		r.wakeDevices = append(r.wakeDevices, l.from, l.to)
	})
}

// toHost starts the leg of a transfer that occupies its sender.
func (r *clock) toHost(l *link, micro int) error {
	e := r.crossing(l, ToHost, l.from, l.to, micro)
	return r.occupy(e, r.costs.Link.seconds(e.Bytes), func() {
		l.outbox--
		l.queue = append(l.queue, micro)
		r.wakeDevices = append(r.wakeDevices, l.to)
	})
}

// fromHost starts the leg that occupies the receiver.
func (r *clock) fromHost(l *link) error {
	e := r.crossing(l, FromHost, l.to, l.from, l.queue[0])
	l.queue = l.queue[1:]
	l.slots--
	return r.occupy(e, r.costs.Link.seconds(e.Bytes), func() { l.arrived[e.Micro] = true })
}

func (r *clock) crossing(l *link, kind Kind, device, peer, micro int) Event {
	e := Event{At: r.at(device), Peer: r.at(peer), Kind: kind, Micro: micro, Backward: l.backward}
	if r.costs.Boundary != nil {
		e.Bytes = r.costs.Boundary(r.at(min(l.from, l.to)), micro)
	}
	return e
}

// stuck returns an error if anything is left to do when nothing can end any more.
func (r *clock) stuck() error {
	waiting, first := 0, ""
	for k := range r.devices {
		d := &r.devices[k]
		if d.next == len(d.tasks) {
			continue
		}
		waiting++
		if t := d.tasks[d.next]; waiting == 1 {
			first = fmt.Sprintf("stage %d, %v waits for %s", k, t, d.waitsFor(t))
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

// exchange carries Costs.Exchanges and sets the time from which each device is free.
func (r *clock) exchange() error {
	free := make([]float64, len(r.devices)) // when a device has sent and received all
	for k := range free {
		free[k] = r.devices[k].free
	}
	type ends struct{ from, to int }
	busy := map[ends]float64{}
	inHost := make([]float64, len(r.costs.Exchanges))
	cross := func(kind Kind, x Exchange, start float64) float64 {
		e := Event{At: r.at(x.From.Stage), Peer: r.at(x.To.Stage), Kind: kind, Micro: -1, Bytes: x.Bytes, Start: start, Backward: true}
		if kind == FromHost {
			e.At, e.Peer = e.Peer, e.At
		}
		e.End = start + r.costs.Link.seconds(x.Bytes)
		r.events = append(r.events, e)
		return e.End
	}
	for i, x := range r.costs.Exchanges {
		from, to := x.From.Stage, x.To.Stage
		if min(from, to) < 0 || max(from, to) >= len(free) || from == to || x.Bytes < 0 {
			return fmt.Errorf("timeline: an exchange of %d bytes between stages %d and %d of %d: want two different stages, 0 bytes or more", x.Bytes, from, to, len(free))
		}
		if r.costs.Link.ThroughHost {
			free[from] = cross(ToHost, x, free[from])
			inHost[i] = free[from]
			continue
		}
		pair := ends{from, to}
		busy[pair] = cross(Transfer, x, max(busy[pair], r.devices[from].free))
	}
	for pair, end := range busy {
		free[pair.to] = max(free[pair.to], end)
	}
	for i, x := range r.costs.Exchanges {
		if r.costs.Link.ThroughHost {
			to := x.To.Stage
			free[to] = cross(FromHost, x, max(free[to], inHost[i]))
		}
	}
	for k := range free {
		r.devices[k].free = free[k]
	}
	return nil
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
	if err := together(all, Reduce, costs.Reduce); err != nil {
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
