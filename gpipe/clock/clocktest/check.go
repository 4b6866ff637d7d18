package clocktest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// Check returns the first thing on a step's timeline that cannot have happened with these lists,
// which has all devices, replica by replica:
//
//   - each replica's lists are a schedule;
//   - each device does one thing at a time: Setup, then its list in order, with Reduce right after
//     the task that ends a group, then the barrier and the update;
//   - with U in the lists, the update is that task, and there is no barrier;
//   - F, B, I, and R if it waits for the gradient, begin after what they need was made, and after
//     it has crossed between devices, once, if the timeline has crossings;
//   - after a barrier no device updates before the last gradient of all is complete ("gradients are
//     applied only at the end of each mini-batch", GPipe, section 2.2);
//   - replicas meet within their tasks, which are away for as long.
//
// An event may begin at the instant at which another ends.
func Check(tl *timeline.Timeline, lists [][]schedule.Task) error {
	stages := tl.Stages()
	for own := range slices.Chunk(lists, stages) {
		micro := 0
		for _, t := range own[0] {
			if t.Kind == schedule.Forward && t.Chunk == 0 {
				micro++
			}
		}
		if err := schedule.Verify(own, tl.Placement.Or(stages), micro); err != nil {
			return err
		}
	}
	on, meetings := make([][]timeline.Event, tl.Devices), make([][]timeline.Event, tl.Devices)
	for e := range tl.All() {
		switch d := tl.Device(e.At); {
		case e.Kind == timeline.Meet:
			meetings[d] = append(meetings[d], e)
		case e.Kind.OnDevice():
			on[d] = append(on[d], e)
		}
	}
	for d := range on {
		if err := cmp.Or(checkDevice(on[d], lists[d]), checkMeetings(meetings[d], on[d])); err != nil {
			return fmt.Errorf("device %d: %w", d, err)
		}
	}
	return checkData(tl, lists)
}

// apart sorts events by their starts, and returns an error if two of them overlap.
func apart(events []timeline.Event) error {
	slices.SortStableFunc(events, func(a, b timeline.Event) int { return cmp.Compare(a.Start, b.Start) })
	end := 0.0
	for _, e := range events {
		if !(e.Start >= end && e.End >= e.Start) || math.IsInf(e.End, 1) {
			return fmt.Errorf("%v begins before %v s or has no end", e, end)
		}
		end = e.End
	}
	return nil
}

func checkDevice(events []timeline.Event, list []schedule.Task) error {
	if err := apart(events); err != nil {
		return err
	}
	next, over := 0, false
	for i, e := range events {
		switch {
		case e.Kind == timeline.Setup && i > 0:
			return fmt.Errorf("%v is not the first event", e)
		case e.Kind == timeline.Barrier, e.Kind == timeline.Update && e.Micro < 0:
			over = true
		case e.Kind == timeline.Reduce && e.Micro >= 0:
			if next == 0 || !list[next-1].Accumulates() || list[next-1].Micro != e.Micro {
				return fmt.Errorf("%v does not follow the end of its group", e)
			}
		case e.Listed():
			if over || next == len(list) || timeline.KindOf(list[next]) != e.Kind || list[next].Micro != e.Micro || list[next].Chunk != e.At.Chunk {
				return fmt.Errorf("%v, after %d of the tasks %v", e, next, list)
			}
			next++
		}
	}
	if next < len(list) {
		return fmt.Errorf("%v has not run", list[next])
	}
	return nil
}

// checkMeetings compares a device's meetings with its other events. A task may be away a little
// longer than its meetings take, by waiting.
func checkMeetings(meetings, events []timeline.Event) error {
	if err := apart(meetings); err != nil {
		return err
	}
	const rounding = 1e-9 // seconds
	for _, task := range events {
		met, before := 0.0, len(meetings)
		for len(meetings) > 0 && task.Start <= meetings[0].Start && meetings[0].End <= task.End && meetings[0].Micro == task.Micro {
			met, meetings = met+meetings[0].Seconds(), meetings[1:]
		}
		if task.Away < met-rounding || task.Away > task.Seconds()+rounding || task.Away > 0 && len(meetings) == before {
			return fmt.Errorf("%v is away for %v s and meets for %v s", task, task.Away, met)
		}
	}
	if len(meetings) > 0 {
		return fmt.Errorf("%v is within no task", meetings[0])
	}
	return nil
}

// output is what a piece of a replica's network makes of a micro-batch, or what it gets: an
// activation, or, if back, a gradient.
type output struct {
	replica, piece, micro int
	back                  bool
}

// checkData compares tasks and crossings with when what they need was there.
func checkData(tl *timeline.Timeline, lists [][]schedule.Task) error {
	pieces := tl.Pieces()
	of := func(at place.Place, e timeline.Event, back bool) output {
		return output{at.Replica, pieces.Piece(at), e.Micro, back}
	}
	made, host, got := map[output]float64{}, map[output]float64{}, map[output]float64{}
	complete, barrier := 0.0, false
	for e := range tl.All() {
		switch {
		case e.Kind == timeline.Forward || e.Kind.SendsGradient():
			made[of(e.At, e, e.Kind != timeline.Forward)] = e.End
		case e.Kind == timeline.Barrier:
			barrier = true
		case e.Kind.Crosses() && e.Micro >= 0:
			to, at := got, of(e.Peer, e, e.Backward)
			switch e.Kind {
			case timeline.ToHost:
				to = host
			case timeline.FromHost:
				at = of(e.At, e, e.Backward)
			}
			if _, twice := to[at]; twice {
				return fmt.Errorf("%v is there twice", e)
			}
			to[at] = e.End
		}
		if e.Kind == timeline.Backward || e.Kind == timeline.BackwardWeights {
			complete = max(complete, e.End)
		}
	}
	for e := range tl.All() {
		after := func(ends map[output]float64, what output) error {
			if end, ok := ends[what]; !ok || e.Start < end {
				return fmt.Errorf("%v begins before %+v, at %v s", e, what, end)
			}
			return nil
		}
		var err error
		piece, micro := pieces.Piece(e.At), e.Micro
		from, back := piece+1, true
		switch {
		case e.Kind == timeline.Update && barrier && e.Start < complete:
			return fmt.Errorf("after a barrier, %v begins before the last gradient is complete, at %v s", e, complete)
		case (e.Kind == timeline.Transfer || e.Kind == timeline.ToHost) && micro >= 0:
			err = after(made, of(e.At, e, e.Backward))
		case e.Kind == timeline.FromHost && micro >= 0:
			err = after(host, of(e.At, e, e.Backward))
		case e.Kind == timeline.Recompute && !slices.Contains(lists[tl.Device(e.At)], schedule.Task{Kind: schedule.Recompute, Micro: micro, Chunk: e.At.Chunk, AwaitGrad: true}):
		case e.Kind == timeline.Forward:
			from, back = piece-1, false
			fallthrough
		case e.Kind == timeline.Recompute || e.Kind.SendsGradient():
			if from < 0 || from == pieces.Len() {
				break
			}
			if err = after(made, output{e.At.Replica, from, micro, back}); err == nil && len(got) > 0 && pieces.At(0, from).Stage != e.At.Stage {
				err = after(got, of(e.At, e, back))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
