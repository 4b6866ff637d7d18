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

// exchanges are a replica's Exchanges on their way, as events among the others. Those at the
// end of the step are Costs.Exchanges once more, and then those of Costs.Last.
type exchanges struct {
	all         []Exchange
	repeated    int     // how many of all happen at the end of each group
	sends, gets [][]int // by stage: their numbers in all
	inHost      []int   // by number: how often it has left its sender on the way through the host
	arrived     []int   // by number: how often it has arrived
	free        map[ends]float64
}

// ends are a sender and a receiver.
type ends struct{ from, to int }

func newExchanges(c Costs, replica, stages int) (*exchanges, error) {
	e := &exchanges{all: c.Exchanges, repeated: len(c.Exchanges), sends: make([][]int, stages), gets: make([][]int, stages), free: map[ends]float64{}}
	if c.Update != nil && c.Last != nil {
		e.all = slices.Concat(e.all, c.Last(replica))
	}
	e.inHost, e.arrived = make([]int, len(e.all)), make([]int, len(e.all))
	for i, x := range e.all {
		from, to := x.From.Stage, x.To.Stage
		if min(from, to) < 0 || max(from, to) >= stages || from == to || x.Bytes < 0 {
			return nil, fmt.Errorf("clock: an exchange of %d bytes between stages %d and %d of %d: want two different stages, 0 bytes or more", x.Bytes, from, to, stages)
		}
		e.sends[from], e.gets[to] = append(e.sends[from], i), append(e.gets[to], i)
	}
	return e, nil
}

// ends says of each micro-batch whether a group of the replica ends with it on any stage.
func (c Costs) ends(replica, stages, micro int) []bool {
	all := make([]bool, micro)
	for k := range stages {
		for m := 0; c.Group != nil && m < micro; m++ {
			all[m] = all[m] || c.Group(place.Place{Replica: replica, Stage: k}, m) > 0
		}
	}
	return all
}

// crossed is the event of an exchange's crossing in a replica, or of a leg of it.
func crossed(replica int, kind timeline.Kind, x Exchange) timeline.Event {
	at := func(stage int) place.Place { return place.Place{Replica: replica, Stage: stage} }
	e := timeline.Event{At: at(x.From.Stage), Peer: at(x.To.Stage), Kind: kind, Micro: -1, Bytes: x.Bytes, Backward: true}
	if kind == timeline.FromHost {
		e.At, e.Peer = e.Peer, e.At
	}
	return e
}

// endGroup does what is next on a device at the end of a group, or of the step: what it sends
// leaves, what it receives arrives, and then it adds up the group. The device is busy
// afterwards, or waits, or goes on with its tasks.
func (r *replica) endGroup(k int) error {
	d, uses, host := &r.devices[k], r.uses, r.costs.Link.ThroughHost
	micro := d.ended
	last := micro == len(r.ends)
	for len(d.unsent) > 0 {
		i := d.unsent[0]
		d.unsent = d.unsent[1:]
		if i >= uses.repeated && !last {
			continue
		}
		x := uses.all[i]
		seconds, to := r.costs.seconds(x.From, x.To, x.Bytes), x.To.Stage
		if host {
			return r.occupy(crossed(r.number, timeline.ToHost, x), seconds, func() {
				uses.inHost[i]++
				r.wakeDevices = append(r.wakeDevices, to)
			})
		}
		pair := ends{k, to}
		start := max(r.now, uses.free[pair])
		uses.free[pair] = start + seconds
		if err := r.startAt(start, crossed(r.number, timeline.Transfer, x), seconds, func() {
			uses.arrived[i]++
			r.wakeDevices = append(r.wakeDevices, to)
		}); err != nil {
			return err
		}
	}
	for _, i := range uses.gets[k] {
		before := d.groups // how often it came before
		if i >= uses.repeated {
			before = 0
		}
		switch {
		case uses.arrived[i] > before || i >= uses.repeated && !last:
		case host && uses.inHost[i] > before:
			x := uses.all[i]
			return r.occupy(crossed(r.number, timeline.FromHost, x), r.costs.seconds(x.From, x.To, x.Bytes), func() { uses.arrived[i]++ })
		default:
			return nil // it waits
		}
	}
	d.ended = -1
	if last {
		d.free = r.now
		return nil
	}
	d.groups++
	seconds := r.costs.Group(r.at(k), micro)
	if seconds == 0 {
		return nil
	}
	return r.occupy(timeline.Event{At: r.at(k), Kind: timeline.Reduce, Micro: micro}, seconds, func() {})
}
