package clock

import (
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// Slots of the boundary buffers. They bound how far neighbours drift apart
// without bounding what a schedule needs: see Replay.
const (
	gradientSlots = 2 // output gradients that a receiver holds
	outboxSlots   = 2 // outputs that a sender holds, in each direction
)

// GradientSlots is how many output gradients each piece of the network has room for: two,
// or with lists of several chunks, or that split B, as many as are ahead if every task takes
// the same time. So such a schedule is not held up by room, and cannot wait for it in a circle.
func GradientSlots(tasks [][]schedule.Task, p schedule.Placement, micro int) []int {
	slots := make([]int, p.Stages())
	ahead := slots
	if !p.IsStraight() || schedule.Splits(tasks) {
		ahead = schedule.GradientsAhead(tasks, p, micro)
	}
	for s := range slots {
		slots[s] = min(micro, max(gradientSlots, ahead[s]))
	}
	return slots
}

// hop is one direction between neighbouring pieces of the network.
type hop struct {
	from, to place.Place
	boundary place.Place // that of the first of both in the order of layers
	backward bool
}

// bytes are what a micro-batch sends.
func (c *Costs) bytes(h *hop, micro int) int64 {
	if c.Boundary == nil {
		return 0
	}
	return c.Boundary(h.boundary, micro)
}

// crossing is the event of a transfer, or of a leg of it.
func (c *Costs) crossing(h *hop, kind timeline.Kind, micro int) timeline.Event {
	e := timeline.Event{At: h.from, Peer: h.to, Kind: kind, Micro: micro, Bytes: c.bytes(h, micro), Backward: h.backward}
	if kind == timeline.FromHost {
		e.At, e.Peer = e.Peer, e.At
	}
	return e
}

// edge is what one piece of the network sends a neighbour, and its slots there.
type edge struct {
	hop
	link    *link
	queue   []output // ready to go (through the host: in its memory) and not gone yet, oldest first
	arrived []bool   // by micro-batch
	outbox  int      // sender's slots that are occupied
	slots   int      // receiver's slots that are free
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

// enqueue notes that an edge's output has been made.
func (r *replica) enqueue(e *edge, micro int) {
	e.queue = append(e.queue, output{micro, r.made})
	r.made++
}

// carry lets a direct link start its next transfer, if it can: of what is ready and has a
// slot, the oldest.
func (r *replica) carry(l *link) error {
	if l.local {
		r.handOver(l)
		return nil
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
	e := r.costs.crossing(&of.hop, timeline.Transfer, of.queue[0].micro)
	of.queue = of.queue[1:]
	l.busy = true
	of.slots--
	return r.start(e, r.costs.seconds(of.from, of.to, e.Bytes), func() {
		l.busy = false
		of.outbox--
		of.arrived[e.Micro] = true
		r.wakeLinks = append(r.wakeLinks, l.index)
		r.wakeDevices = append(r.wakeDevices, of.from.Stage, of.to.Stage)
	})
}

// handOver gives what chunks of a device have made to their neighbours on it.
func (r *replica) handOver(l *link) {
	for _, e := range l.edges {
		for len(e.queue) > 0 && e.slots > 0 {
			e.arrived[e.queue[0].micro] = true
			e.queue = e.queue[1:]
			e.slots--
			e.outbox--
			r.wakeDevices = append(r.wakeDevices, e.to.Stage)
		}
	}
}

// toHost starts the leg of a transfer that occupies its sender.
func (r *replica) toHost(l *edge, micro int) error {
	e := r.costs.crossing(&l.hop, timeline.ToHost, micro)
	return r.occupy(e, r.costs.seconds(l.from, l.to, e.Bytes), func() {
		l.outbox--
		r.enqueue(l, micro)
		r.wakeDevices = append(r.wakeDevices, l.to.Stage)
	})
}

// fromHost starts the leg that occupies the receiver.
func (r *replica) fromHost(l *edge) error {
	e := r.costs.crossing(&l.hop, timeline.FromHost, l.queue[0].micro)
	l.queue = l.queue[1:]
	l.slots--
	return r.occupy(e, r.costs.seconds(l.from, l.to, e.Bytes), func() { l.arrived[e.Micro] = true })
}
