package clock

import (
	"cmp"
	"fmt"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
)

// finish adds what follows the last tasks of all replicas: the addition of their
// gradients, the barrier, if wanted, and Update.
func finish(all []*replica, barrier bool) error {
	costs := all[0].costs
	if costs.Update == nil {
		return nil
	}
	if err := cmp.Or(together(all, timeline.Reduce, costs.Reduce), together(all, timeline.Rows, costs.Rows)); err != nil {
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
				r.events = append(r.events, timeline.Event{At: r.at(k), Kind: timeline.Barrier, Micro: -1, Start: r.now, End: last})
				r.now = last
			}
			seconds := costs.Update(r.at(k))
			if err := r.occupy(timeline.Event{At: r.at(k), Kind: timeline.Update, Micro: -1}, seconds, func() {}); err != nil {
				return err
			}
			r.devices[k].free = r.now + seconds
		}
	}
	return together(all, timeline.Gather, costs.Gather)
}

// together makes every stage of all replicas do something at the same time, once the
// last of them is free. It moves pieces between all of them, so all finish with the slowest.
func together(all []*replica, kind timeline.Kind, cost func(place.Place) float64) error {
	if cost == nil {
		return nil
	}
	for k := range all[0].devices {
		var from, longest float64
		for _, r := range all {
			from = max(from, r.devices[k].free)
			seconds := cost(r.at(k))
			if !duration(seconds) {
				return fmt.Errorf("clock: %v: %v takes %v seconds: want a finite time, not negative", r.at(k), kind, seconds)
			}
			longest = max(longest, seconds)
		}
		if longest == 0 {
			continue
		}
		for _, r := range all {
			r.devices[k].free = from + longest
			r.events = append(r.events, timeline.Event{At: r.at(k), Kind: kind, Micro: -1, Start: from, End: from + longest})
		}
	}
	return nil
}
