package plan

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/nn/program"
)

// Portion is a replica's part of a mini-batch: consecutive groups of examples, cut into
// micro-batches, which are numbered from 0 over all of the replica's groups.
type Portion struct {
	Sizes  []int // examples of each micro-batch
	Firsts []int // index, in the mini-batch, of its first example
	Ends   []int // of each group: the number of micro-batches up to its end

	Programs []Compiled        // of each micro-batch
	Lists    [][]schedule.Task // of each device
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

// Groups are the numbers of micro-batches of the groups.
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

// Largest is the size of the portion's largest micro-batch, the first; 0: it has none.
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

// LargestPortions are the portions of a purpose's largest mini-batch, whose programs have
// been compiled.
func (n *Network) LargestPortions(what Purpose) []Portion {
	all, err := n.Portions(n.largestInput(what), what)
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
