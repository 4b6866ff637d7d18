package clock

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
)

// finish returns, for each device, what follows the last tasks of all replicas: the addition
// of their gradients, the barrier, if wanted, and Update. Free is since when devices have nothing
// to do, before it and after.
func (c Costs) finish(free []float64, barrier bool) (tail [][]timeline.Event, err error) {
	tail = make([][]timeline.Event, len(free))
	if c.Update == nil {
		return tail, nil
	}
	add := func(i int, kind timeline.Kind, start, end float64) {
		free[i] = end
		tail[i] = append(tail[i], timeline.Event{At: c.at(i, len(free)), Kind: kind, Micro: -1, Start: start, End: end})
	}
	if err := c.together(free, timeline.Reduce, c.Reduce, add); err != nil {
		return nil, err
	}
	if err := c.together(free, timeline.Rows, c.Rows, add); err != nil {
		return nil, err
	}
	last := slices.Max(free)
	for i := range free {
		if barrier {
			add(i, timeline.Barrier, free[i], last)
		}
		at := c.at(i, len(free))
		seconds := c.Update(at)
		if !duration(seconds) {
			return nil, fmt.Errorf("clock: stage %d: %v takes %v seconds: want a finite time, not negative", at.Stage, timeline.Update, seconds)
		}
		add(i, timeline.Update, free[i], free[i]+seconds)
	}
	return tail, c.together(free, timeline.Gather, c.Gather, add)
}

// together makes every stage of all replicas do something at the same time, once the
// last of them is free. It moves pieces between all of them, so all finish with the slowest.
func (c Costs) together(free []float64, kind timeline.Kind, cost func(place.Place) float64, add func(device int, kind timeline.Kind, start, end float64)) error {
	if cost == nil {
		return nil
	}
	stages := len(free) / max(c.Replicas, 1)
	for k := range stages {
		var from, longest float64
		for i := k; i < len(free); i += stages {
			from = max(from, free[i])
			at := c.at(i, len(free))
			seconds := cost(at)
			if !duration(seconds) {
				return fmt.Errorf("clock: %v: %v takes %v seconds: want a finite time, not negative", at, kind, seconds)
			}
			longest = max(longest, seconds)
		}
		for i := k; longest > 0 && i < len(free); i += stages {
			add(i, kind, from, from+longest)
		}
	}
	return nil
}
