package clock

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
)

// Exchange is something that one stage of a replica sends another of the same, neighbour
// or not, at the end of each group: the gradient of a weight that both have. It takes as
// long as a transfer between neighbours, and several between two stages follow one
// another.
type Exchange struct {
	From, To place.Place
	Bytes    int64
}

// exchanges are a replica's Exchanges on their way. Those at a group's end are events as
// others are, since tasks come after them; those at the end of the step are computed.
type exchanges struct {
	sends, gets [][]int // by stage: their numbers in Costs.Exchanges
	inHost      []int   // by number: how often it has left its sender on the way through the host
	arrived     []int   // by number: how often it has arrived
	free        map[ends]float64
}

// ends are a sender and a receiver.
type ends struct{ from, to int }

func newExchanges(all []Exchange, stages int) (e exchanges, err error) {
	e = exchanges{make([][]int, stages), make([][]int, stages), make([]int, len(all)), make([]int, len(all)), map[ends]float64{}}
	for i, x := range all {
		from, to := x.From.Stage, x.To.Stage
		if min(from, to) < 0 || max(from, to) >= stages || from == to || x.Bytes < 0 {
			return e, fmt.Errorf("clock: an exchange of %d bytes between stages %d and %d of %d: want two different stages, 0 bytes or more", x.Bytes, from, to, stages)
		}
		e.sends[from], e.gets[to] = append(e.sends[from], i), append(e.gets[to], i)
	}
	return e, nil
}

// crossed is the event of an exchange's crossing, or of a leg of it.
func (r *replica) crossed(kind timeline.Kind, x Exchange) timeline.Event {
	e := timeline.Event{At: r.at(x.From.Stage), Peer: r.at(x.To.Stage), Kind: kind, Micro: -1, Bytes: x.Bytes, Backward: true}
	if kind == timeline.FromHost {
		e.At, e.Peer = e.Peer, e.At
	}
	return e
}

// endGroup does what is next on a device at a group's end: what it sends leaves, what it
// receives arrives, and then it adds up the group. The device is busy afterwards, or
// waits, or goes on with its tasks.
func (r *replica) endGroup(k int) error {
	d, host := &r.devices[k], r.costs.Link.ThroughHost
	for len(d.unsent) > 0 {
		i := d.unsent[0]
		d.unsent = d.unsent[1:]
		x := r.costs.Exchanges[i]
		seconds, to := r.costs.Link.seconds(x.Bytes), x.To.Stage
		if host {
			return r.occupy(r.crossed(timeline.ToHost, x), seconds, func() {
				r.uses.inHost[i]++
				r.wakeDevices = append(r.wakeDevices, to)
			})
		}
		pair := ends{k, to}
		start := max(r.now, r.uses.free[pair])
		r.uses.free[pair] = start + seconds
		if err := r.startAt(start, r.crossed(timeline.Transfer, x), seconds, func() {
			r.uses.arrived[i]++
			r.wakeDevices = append(r.wakeDevices, to)
		}); err != nil {
			return err
		}
	}
	waits := false
	for _, i := range r.uses.gets[k] {
		switch {
		case r.uses.arrived[i] > d.groups:
		case host && r.uses.inHost[i] > d.groups:
			x := r.costs.Exchanges[i]
			return r.occupy(r.crossed(timeline.FromHost, x), r.costs.Link.seconds(x.Bytes), func() { r.uses.arrived[i]++ })
		default:
			waits = true
		}
	}
	if waits {
		return nil
	}
	micro := d.ended
	d.ended, d.groups = -1, d.groups+1
	seconds := r.costs.Group(r.at(k), micro)
	if seconds == 0 {
		return nil
	}
	return r.occupy(timeline.Event{At: r.at(k), Kind: timeline.Reduce, Micro: micro}, seconds, func() {})
}

// exchange carries the exchanges at the end of the step, and sets the time from which
// each device is free.
func (r *replica) exchange() error {
	free := make([]float64, len(r.devices)) // when a device has sent and received all
	for k := range free {
		free[k] = r.devices[k].free
	}
	exchanges := r.costs.Exchanges
	if r.costs.Last != nil {
		last := r.costs.Last(r.number)
		if _, err := newExchanges(last, len(r.devices)); err != nil {
			return err
		}
		exchanges = slices.Concat(exchanges, last)
	}
	inHost := make([]float64, len(exchanges))
	cross := func(kind timeline.Kind, x Exchange, start float64) float64 {
		e := r.crossed(kind, x)
		e.Start, e.End = start, start+r.costs.Link.seconds(x.Bytes)
		r.events = append(r.events, e)
		return e.End
	}
	last := map[ends]float64{} // of those that go directly
	for i, x := range exchanges {
		from, to := x.From.Stage, x.To.Stage
		if r.costs.Link.ThroughHost {
			free[from] = cross(timeline.ToHost, x, free[from])
			inHost[i] = free[from]
			continue
		}
		pair := ends{from, to}
		last[pair] = cross(timeline.Transfer, x, max(last[pair], r.uses.free[pair], r.devices[from].free))
	}
	for pair, end := range last {
		free[pair.to] = max(free[pair.to], end)
	}
	for i, x := range exchanges {
		if r.costs.Link.ThroughHost {
			to := x.To.Stage
			free[to] = cross(timeline.FromHost, x, max(free[to], inHost[i]))
		}
	}
	for k := range free {
		r.devices[k].free = free[k]
	}
	return nil
}
