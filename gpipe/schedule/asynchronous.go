package schedule

import (
	"fmt"
	"slices"
)

// Asynchronous reports whether stages update within their lists (U), each by itself.
func (s Schedule) Asynchronous() bool { return s >= PipeDream && int(s) < len(schedules) }

// AsynchronousNames are the schedules that [Window] knows.
func AsynchronousNames() []string { return slices.Clone(schedules[PipeDream:]) }

// Ends are the ends of a window's mini-batches, as [Window] takes them, if all have the same number
// of micro-batches.
func Ends(batches, micro int) []int {
	ends := make([]int, batches)
	for t := range ends {
		ends[t] = (t + 1) * micro
	}
	return ends
}

// Window returns the ordered task list of each device for a window of an asynchronous schedule:
// the mini-batches between two drains. ends has, for each mini-batch, the number of micro-batches
// up to its end.
//
// Stage k of K begins with K-1-k F, as with 1f1b, then runs one F and one B in turn over all
// mini-batches, and at the end the B that are left. U follows the last B of each mini-batch. So a
// stage holds at most K-k micro-batches. All mini-batches have one micro-batch, but with
// pipedream-2bw. Devices wait for each other at the window's ends alone.
//
// Mini-batch t of a window, counted from 0, reads on stage k the weights after this number of the
// window's updates:
//
//	pipedream           F and B: max(0, t - (K-1-k)), the newest when F begins
//	pipedream-vertical  F and B: max(0, t - (K-1)), the version that stage 0 has read
//	pipedream-nostash   F: max(0, t - (K-1-k)); B: t, the newest
//	pipedream-2bw       F and B: max(0, t - 1)
//
// Sources: Harlap et al., arXiv 1806.03377; Narayanan et al., SOSP 2019, sections 3.2 and 3.3;
// pipedream-2bw: Narayanan et al., arXiv 2006.09503, section 3.1, which wants as many micro-batches
// in each mini-batch as there are stages, so that version t - 1 is made in time.
func Window(s Schedule, stages int, ends []int, c Checkpoint) ([][]Task, error) {
	if !s.Asynchronous() {
		return nil, fmt.Errorf("schedule: %v does not update within its lists: want %v", s, AsynchronousNames())
	}
	if len(ends) == 0 {
		return nil, fmt.Errorf("schedule: a window of no mini-batch: want one or more")
	}
	if err := Check(s, stages, ends[len(ends)-1], c); err != nil {
		return nil, err
	}
	before := 0
	for t, end := range ends {
		switch micro := end - before; {
		case s == PipeDream2BW && micro < stages && len(ends) > 1:
			return nil, fmt.Errorf("schedule: %v: mini-batch %d of a window has %d micro-batches: want %d or more, as many as stages", s, t, micro, stages)
		case s != PipeDream2BW && micro != 1:
			return nil, fmt.Errorf("schedule: %v: mini-batch %d of a window has %d micro-batches: want 1", s, t, micro)
		}
		before = end
	}
	lists := OneFOneB.ordered(stages, 1, before)
	var first []int // the versions that stage 0 reads
	for d := range lists {
		read := make([]int, before)
		lists[d] = s.updating(lists[d], ends, first, read)
		if d == 0 {
			first = read
		}
	}
	return Checkpointed(lists, c, false), nil
}

// updating is a list of F and B with U, and with the versions of the weights. It stores those that
// the F of each micro-batch reads; first has the ones of stage 0, nil if the list is its own.
func (s Schedule) updating(list []Task, ends, first, read []int) (all []Task) {
	newest, entering := 0, 0 // version, and the mini-batch whose F are running
	for _, t := range list {
		if t.Kind == Forward {
			if t.Micro == ends[entering] {
				entering++
			}
			switch {
			case s == PipeDream2BW:
				read[t.Micro] = max(0, entering-1)
			case s == PipeDreamVertical && first != nil:
				read[t.Micro] = first[t.Micro]
			default:
				read[t.Micro] = newest
			}
		}
		t.Version = read[t.Micro]
		if s == PipeDreamNoStash && t.Kind == Backward {
			t.Version = newest
		}
		all = append(all, t)
		if t.Kind == Backward && t.Micro+1 == ends[newest] {
			newest++
			all = append(all, Task{Kind: Update, Micro: t.Micro, Version: newest})
		}
	}
	return all
}

// VerifyWindow returns the first way in which lists are not a window of the asynchronous schedule:
// what [Verify] finds, a stage that holds more micro-batches than there are stages from it on, a
// mini-batch without its update, or a task that reads another version of the weights than the
// schedule's definition says. It knows the definitions in [Window]'s description, and no generator.
func VerifyWindow(s Schedule, lists [][]Task, ends []int) error {
	stages := len(lists)
	if err := Verify(lists, Straight(stages), ends[len(ends)-1]); err != nil {
		return err
	}
	var miniOf []int // of each micro-batch
	for t, end := range ends {
		for len(miniOf) < end {
			miniOf = append(miniOf, t)
		}
	}
	for k, list := range lists {
		if held := Holds(list).Inputs; held > stages-k {
			return fmt.Errorf("schedule: device %d holds %d micro-batches: want %d or fewer", k, held, stages-k)
		}
		after := updated(list)
		for t, end := range ends {
			if t >= len(after) || after[t] != end-1 {
				return fmt.Errorf("schedule: device %d updates after the micro-batches %v: want an update after the last one of each mini-batch, %d", k, after, end-1)
			}
		}
		behind := map[Schedule]int{PipeDream: stages - 1 - k, PipeDreamVertical: stages - 1, PipeDreamNoStash: stages - 1 - k, PipeDream2BW: 1}[s]
		for _, task := range list {
			t := miniOf[task.Micro]
			want := max(0, t-behind)
			switch {
			case task.Kind == Update:
				want = t + 1
			case s == PipeDreamNoStash && task.Kind != Forward:
				want = t
			}
			if task.Version != want {
				return fmt.Errorf("schedule: device %d: %v of mini-batch %d has version %d of the weights: want %d by the definition of %v", k, task, t, task.Version, want, s)
			}
		}
	}
	return nil
}

// Updates reports whether lists have U.
func Updates(lists [][]Task) bool { return have(lists, Update) }

// WeightSlots says where the tasks of a device's list find the weights, and how many versions
// of them the device must hold at once. Slot 0 has the newest. U copies the version that it replaces to
// another slot if a later task reads it, and then changes slot 0 in place.
//
// Of F, R and B, slots has the slot that the task reads; of U, the one to which it copies; 0: it
// copies nothing.
func WeightSlots(list []Task) (slots []int, versions int) {
	last := map[int]int{} // by version: the last task that reads it
	for i, t := range list {
		if t.Kind != Update {
			last[t.Version] = i
		}
	}
	slots = make([]int, len(list))
	held := []int{0} // the version in each slot
	for i, t := range list {
		if t.Kind != Update {
			if slots[i] = slices.Index(held, t.Version); slots[i] < 0 {
				panic(fmt.Sprintf("schedule: %v reads version %d of the weights, which is no longer held: want lists that are complete", t, t.Version))
			}
			continue
		}
		if last[held[0]] > i {
			slot := 1
			for slot < len(held) && last[held[slot]] > i {
				slot++
			}
			if slot == len(held) {
				held = append(held, 0)
			}
			slots[i], held[slot] = slot, held[0]
		}
		held[0] = t.Version
	}
	return slots, len(held)
}

// Staleness is by how many updates the weights that F reads are older than those that U changes by the
// gradient: the most of a list. It is 0 of lists without U.
func Staleness(list []Task) (most int) {
	read := map[int]int{}
	for _, t := range list {
		switch t.Kind {
		case Forward:
			read[t.Micro] = t.Version
		case Update:
			most = max(most, t.Version-1-read[t.Micro])
		}
	}
	return most
}
