package plan

import (
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn/program"
)

// Lists of devices with one piece of the network each, of F, R and B, are made for all of a
// replica's micro-batches at once: a device then ends its groups one by one, in the same
// fill and drain. With several pieces, or where B is split, one of them would add to the
// gradients of the next group before another has ended the last. So these lists are of one
// group, and replicas run them group by group (lists of a caller with I and W and one piece
// are asked for again). A group of fewer micro-batches, as at an
// epoch's end, has the same lists without the tasks of those that it lacks: what is left
// waits for no more, and holds no more, than before.

// wholeLists are the lists of a group's micro-batches on each device, and where the pieces
// of the network are. Those of a schedule with chunks keep no residuals so far.
func (p Config) wholeLists() (lists [][]schedule.Task, placed schedule.Placement, err error) {
	switch {
	case p.Asynchronous():
		lists, err = schedule.Window(p.Schedule, p.Partitions, schedule.Ends(p.Window, p.MicroBatches), p.Checkpoint)
		return lists, schedule.Straight(p.Partitions), err
	case p.Tasks == nil && p.Schedule.Straight() && p.Chunks <= 1:
		lists, err = schedule.Build(p.Schedule, p.Partitions, p.MicroBatches, p.Checkpoint, p.LateRecompute)
		return lists, schedule.Straight(p.Partitions), err
	case p.Tasks == nil:
		return schedule.Generate(p.Schedule.String(), p.Partitions, p.Chunks, p.MicroBatches)
	}
	placed = p.Placement.Or(p.Partitions)
	if placed.Devices != p.Partitions {
		return nil, placed, fmt.Errorf("task lists for %d micro-batches: a placement on %d devices: want %d", p.MicroBatches, placed.Devices, p.Partitions)
	}
	lists, err = p.ownTasks(p.MicroBatches)
	return lists, placed, err
}

// ownTasks returns the lists of Pipeline.Tasks, checked. Devices with one piece each have
// room for two outputs at an edge, so their lists must not wait for room in a circle either.
func (p Config) ownTasks(micro int) ([][]schedule.Task, error) {
	lists, placed := p.Tasks(p.Partitions, micro), p.Placement.Or(p.Partitions)
	err := schedule.Verify(lists, placed, micro)
	if err == nil && schedule.Updates(lists) {
		err = errors.New("updates within the lists (U): want F, R, B, I and W, or one of the asynchronous schedules")
	}
	if err == nil && placed.IsStraight() {
		_, err = clock.Replay(lists, clock.Costs{Task: func(place.Place, schedule.Task) float64 { return 0 }})
	}
	if err != nil {
		return nil, fmt.Errorf("task lists for %d micro-batches: %w", micro, err)
	}
	return lists, nil
}

// ofChunk are the tasks of a list that are one chunk's.
func ofChunk(list []schedule.Task, chunk int) (own []schedule.Task) {
	for _, t := range list {
		if t.Chunk == chunk {
			own = append(own, t)
		}
	}
	return own
}

// taskLists are the devices' lists for a replica's portion of a mini-batch in training. A
// replica whose groups are all empty, as at an epoch's end, has empty lists.
func (n *Network) taskLists(s *Portion) ([][]schedule.Task, error) {
	if len(s.Sizes) == 0 {
		return make([][]schedule.Task, n.Partitions), nil
	}
	if n.whole == nil {
		return straightLists(n, s)
	}
	lists := make([][]schedule.Task, n.Partitions)
	first := 0
	for _, end := range s.Ends {
		for k, list := range n.whole {
			for _, t := range list {
				if t.Micro += first; t.Micro < end {
					lists[k] = append(lists[k], t)
				}
			}
		}
		first = end
	}
	if n.Tasks == nil {
		lists = schedule.Checkpointed(lists, n.Checkpoint, n.LateRecompute)
	}
	return lists, nil
}

// straightLists are the lists for all micro-batches of a portion at once, where devices
// have one piece each; of a caller's lists with I and W, group by group.
func straightLists(n *Network, s *Portion) ([][]schedule.Task, error) {
	micro := len(s.Sizes)
	switch {
	case n.Asynchronous():
		return schedule.Window(n.Schedule, n.Partitions, s.Ends, n.Checkpoint)
	case n.Tasks == nil:
		return schedule.Build(n.Schedule, n.Partitions, micro, n.Checkpoint, n.LateRecompute)
	case n.lists[micro] != nil:
		return n.lists[micro], nil
	}
	lists, err := n.ownTasks(micro)
	if err == nil && schedule.Splits(lists) {
		lists, err = schedule.Repeated(s.groups(), n.ownTasks)
	}
	if err != nil {
		return nil, err
	}
	if largest := &n.Divide(n.Input.Examples, Training)[0]; micro < len(largest.Sizes) {
		room, err := straightLists(n, largest)
		if err != nil {
			return nil, err
		}
		for k := range lists {
			if err := exceeds(lists[k], room[k]); err != nil {
				return nil, fmt.Errorf("task lists for %d micro-batches: stage %d %w, as for %d micro-batches", micro, k, err, len(largest.Sizes))
			}
		}
		gradients, most := clock.GradientSlots(lists, n.placed, micro), clock.GradientSlots(room, n.placed, len(largest.Sizes))
		for k := range gradients {
			if gradients[k] > most[k] && schedule.Splits(lists) {
				return nil, fmt.Errorf("task lists for %d micro-batches: stage %d holds %d output gradients at once: want at most %d, as for %d micro-batches", micro, k, gradients[k], most[k], len(largest.Sizes))
			}
		}
	}
	if n.lists == nil {
		n.lists = map[int][][]schedule.Task{}
	}
	n.lists[micro] = lists
	return lists, nil
}

// exceeds reports what of a list exceeds the memory planned for another one.
func exceeds(list, room []schedule.Task) error {
	got, most := schedule.Holds(list), schedule.Holds(room)
	switch {
	case got.Inputs > most.Inputs || got.Residuals > most.Residuals:
		return fmt.Errorf("holds %d inputs and %d sets of residuals at once: want at most %d and %d", got.Inputs, got.Residuals, most.Inputs, most.Residuals)
	case got.Between > most.Between:
		return fmt.Errorf("holds what I keeps for W of %d micro-batches at once: want at most %d", got.Between, most.Between)
	case got.Between > 0 && got.Lasting > most.Lasting:
		return fmt.Errorf("holds %d sets of residuals until W at once: want at most %d", got.Lasting, most.Lasting)
	}
	return nil
}

// forwardLists are the lists of what is not trained: all micro-batches, or, with several
// chunks on a device, as many as there are devices, through all of its chunks, then the next.
func forwardLists(n *Network, micro int) [][]schedule.Task {
	lists := make([][]schedule.Task, n.Partitions)
	for k := range lists {
		chunks := len(n.Pieces.On(k))
		round := micro
		if chunks > 1 {
			round = n.Partitions
		}
		for first := 0; first < micro; first += round {
			for c := range chunks {
				for m := first; m < min(first+round, micro); m++ {
					lists[k] = append(lists[k], schedule.Task{Kind: schedule.Forward, Micro: m, Chunk: c})
				}
			}
		}
	}
	return lists
}

// Portion is a replica's part of a mini-batch: consecutive groups of examples, cut into
// micro-batches, which are numbered from 0 over all of the replica's groups. Of a window (see
// [Network.WindowPortions]) a group is a mini-batch.
type Portion struct {
	Sizes  []int // examples of each micro-batch
	Firsts []int // index, in its mini-batch, of its first example
	Ends   []int // of each group: the number of micro-batches up to its end

	Programs []Compiled        // of each micro-batch
	Lists    [][]schedule.Task // of each device

	gradients []int // of Lists, what clock.GradientSlots says; nil: nobody has asked
}

// Divide cuts a mini-batch into the replicas' portions, without programs and lists.
// What is not trained has no groups: each replica takes an even part.
func (n *Network) Divide(examples int, what Purpose) []Portion {
	groups := n.Groups
	if what != Training {
		groups = n.Replicas
	}
	all := make([]Portion, n.Replicas)
	each := groups / n.Replicas
	first := 0
	for g, size := range evenly(examples, groups) {
		s := &all[g/each]
		if g%each == 0 {
			most := each * n.MicroBatches
			*s = Portion{Sizes: make([]int, 0, most), Firsts: make([]int, 0, most), Ends: make([]int, 0, each)}
		}
		for _, micro := range MicroBatchSizes(size, n.MicroBatches) {
			s.Sizes = append(s.Sizes, micro)
			s.Firsts = append(s.Firsts, first)
			first += micro
		}
		s.Ends = append(s.Ends, len(s.Sizes))
	}
	return all
}

// GroupOf is the group of a micro-batch, counted from the replica's first.
func (s *Portion) GroupOf(micro int) int {
	return slices.IndexFunc(s.Ends, func(end int) bool { return micro < end })
}

// groups are the numbers of micro-batches of the groups.
func (s *Portion) groups() []int {
	all := make([]int, len(s.Ends))
	for g, end := range s.Ends {
		all[g] = end
		if g > 0 {
			all[g] -= s.Ends[g-1]
		}
	}
	return all
}

// GroupIsEmpty reports whether a group has no examples, as at an epoch's end.
func (s *Portion) GroupIsEmpty(g int) bool {
	return s.Ends[g] == 0 || g > 0 && s.Ends[g] == s.Ends[g-1]
}

// largest is the size of the portion's largest micro-batch, the first; 0: it has none.
func (s *Portion) largest() int {
	if len(s.Sizes) == 0 {
		return 0
	}
	return s.Sizes[0]
}

// Rows is the number of rows that the micro-batches from from to to-1 have of a use.
func (s *Portion) Rows(u Use, from, to int) (rows int) {
	for m := from; m < to; m++ {
		rows += s.Programs[m][u.Stage].Uses[u.Index].Rows
	}
	return rows
}

// meets reports whether the portion's programs keep statistics over replicas.
func (s *Portion) meets() bool {
	return len(s.Programs) > 0 && slices.ContainsFunc(s.Programs[0], func(st *program.Stage) bool { return st.Span[program.Statistics] > 0 })
}

// Portions are the replicas' parts of a mini-batch like in, with the programs of each
// micro-batch, in the memory planned for the largest, and the lists of each stage.
func (n *Network) Portions(in Input, what Purpose) ([]Portion, error) {
	all, planned := n.Divide(in.Examples, what), n.Divide(n.largestInput(what).Examples, what)
	for r := range all {
		s := &all[r]
		if r > 0 && slices.Equal(s.Sizes, all[r-1].Sizes) && planned[r].largest() == planned[r-1].largest() {
			s.Programs, s.Lists = all[r-1].Programs, all[r-1].Lists
			continue
		}
		var err error
		s.Programs = make([]Compiled, len(s.Sizes))
		for m, size := range s.Sizes { // few different ones
			if m > 0 && size == s.Sizes[m-1] {
				s.Programs[m] = s.Programs[m-1]
			} else if s.Programs[m], err = n.programs(in, size, what, planned[r].largest()); err != nil {
				return nil, err
			}
		}
		if what == Training {
			s.Lists, err = n.taskLists(s)
		} else {
			s.Lists = forwardLists(n, len(s.Sizes))
		}
		if err != nil {
			return nil, err
		}
	}
	return all, validateMeetings(n, in.Examples, all)
}

// WindowPortions are Portions for a window of an asynchronous schedule, whose mini-batches are
// described in their order. Each is a group, and groups follow one another: where a synchronous
// step adds a group to the sums of those before it, a window updates the weights by it.
func (n *Network) WindowPortions(batches []Input) ([]Portion, error) {
	var all Portion
	for _, in := range batches {
		one, err := n.Portions(in, Training)
		if err != nil {
			return nil, err
		}
		before := len(all.Sizes)
		for _, end := range one[0].Ends {
			all.Ends = append(all.Ends, before+end)
		}
		all.Sizes = append(all.Sizes, one[0].Sizes...)
		all.Firsts = append(all.Firsts, one[0].Firsts...)
		all.Programs = append(all.Programs, one[0].Programs...)
	}
	var err error
	all.Lists, err = n.taskLists(&all)
	return []Portion{all}, err
}

// largestPortions are the portions of a purpose's largest mini-batch, or of a window of as many
// of them.
func (n *Network) largestPortions(what Purpose) ([]Portion, error) {
	in := n.largestInput(what)
	if what == Training && n.Asynchronous() && n.Trains() {
		return n.WindowPortions(slices.Repeat([]Input{in}, n.Window))
	}
	return n.Portions(in, what)
}

// LargestPortions are the portions of a purpose's largest mini-batch, or window, whose programs
// have been compiled.
func (n *Network) LargestPortions(what Purpose) []Portion {
	all, err := n.largestPortions(what)
	if err != nil {
		panic(err)
	}
	return all
}

// largestMicro is the size of the largest micro-batch for a purpose: the first.
func (n *Network) largestMicro(what Purpose) int {
	return n.Divide(n.largestInput(what).Examples, what)[0].largest()
}

// validateMeetings checks that replicas that meet have as many micro-batches of a
// mini-batch.
func validateMeetings(n *Network, examples int, all []Portion) error {
	for r := range all {
		from, _ := n.ScopeOf(r)
		if a, b := len(all[from].Sizes), len(all[r].Sizes); a != b && all[from].meets() {
			return fmt.Errorf("a mini-batch of %d examples gives replicas %d and %d micro-batches, and batch norm over replicas wants as many on each: want %d examples or more, a multiple of %d, or the scope replica",
				examples, a, b, n.Replicas*n.MicroBatches, n.Replicas)
		}
	}
	return nil
}
