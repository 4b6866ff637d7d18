package gpipe

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/schedule"
	"gpipebench/nn/program"
)

// portion is a replica's part of a mini-batch: consecutive groups of examples, cut into
// micro-batches, which are numbered from 0 over all of the replica's groups.
type portion struct {
	sizes  []int // examples of each micro-batch
	firsts []int // index, in the mini-batch, of its first example
	ends   []int // of each group: the number of micro-batches up to its end

	programs []compiled        // of each micro-batch
	lists    [][]schedule.Task // of each device
}

// divide cuts a mini-batch into the replicas' portions, without programs and lists.
// What is not trained has no groups: each replica takes an even part.
func (n *network) divide(examples int, what purpose) []portion {
	groups := n.Groups
	if what != training {
		groups = n.Replicas
	}
	all := make([]portion, n.Replicas)
	each := groups / n.Replicas
	first := 0
	for g, size := range evenly(examples, groups) {
		s := &all[g/each]
		if g%each == 0 {
			most := each * n.MicroBatches
			*s = portion{sizes: make([]int, 0, most), firsts: make([]int, 0, most), ends: make([]int, 0, each)}
		}
		for _, micro := range MicroBatchSizes(size, n.MicroBatches) {
			s.sizes = append(s.sizes, micro)
			s.firsts = append(s.firsts, first)
			first += micro
		}
		s.ends = append(s.ends, len(s.sizes))
	}
	return all
}

// groupOf is the group of a micro-batch, counted from the replica's first.
func (s *portion) groupOf(micro int) int {
	return slices.IndexFunc(s.ends, func(end int) bool { return micro < end })
}

// groups are the numbers of micro-batches of the groups.
func (s *portion) groups() []int {
	all := make([]int, len(s.ends))
	for g, end := range s.ends {
		all[g] = end
		if g > 0 {
			all[g] -= s.ends[g-1]
		}
	}
	return all
}

// groupIsEmpty reports whether a group has no examples, as at an epoch's end.
func (s *portion) groupIsEmpty(g int) bool {
	return s.ends[g] == 0 || g > 0 && s.ends[g] == s.ends[g-1]
}

// largest is the size of the portion's largest micro-batch, the first; 0: it has none.
func (s *portion) largest() int {
	if len(s.sizes) == 0 {
		return 0
	}
	return s.sizes[0]
}

// rows is the number of rows that the micro-batches from from to to-1 have of a use.
func (s *portion) rows(u use, from, to int) (rows int) {
	for m := from; m < to; m++ {
		rows += s.programs[m][u.stage].Uses[u.index].Rows
	}
	return rows
}

// meets reports whether the portion's programs keep statistics over replicas.
func (s *portion) meets() bool {
	return len(s.programs) > 0 && slices.ContainsFunc(s.programs[0], func(st *program.Stage) bool { return st.Span[program.Statistics] > 0 })
}

// portions are the replicas' parts of a mini-batch like in, with the programs of each
// micro-batch, in the memory planned for the largest, and the lists of each stage.
func (n *network) portions(in Input, what purpose) ([]portion, error) {
	all, planned := n.divide(in.Examples, what), n.divide(n.largestInput(what).Examples, what)
	for r := range all {
		s := &all[r]
		if r > 0 && slices.Equal(s.sizes, all[r-1].sizes) && planned[r].largest() == planned[r-1].largest() {
			s.programs, s.lists = all[r-1].programs, all[r-1].lists
			continue
		}
		var err error
		s.programs = make([]compiled, len(s.sizes))
		for m, size := range s.sizes { // few different ones
			if m > 0 && size == s.sizes[m-1] {
				s.programs[m] = s.programs[m-1]
			} else if s.programs[m], err = n.programs(in, size, what, planned[r].largest()); err != nil {
				return nil, err
			}
		}
		if what == training {
			s.lists, err = n.taskLists(s)
		} else {
			s.lists = forwardLists(n, len(s.sizes))
		}
		if err != nil {
			return nil, err
		}
	}
	return all, validateMeetings(n, in.Examples, all)
}

// largestPortions are the portions of a purpose's largest mini-batch, whose programs have
// been compiled.
func (n *network) largestPortions(what purpose) []portion {
	all, err := n.portions(n.largestInput(what), what)
	if err != nil {
		panic(err)
	}
	return all
}

// largestMicro is the size of the largest micro-batch for a purpose: the first.
func (n *network) largestMicro(what purpose) int {
	return n.divide(n.largestInput(what).Examples, what)[0].largest()
}

// validateMeetings checks that replicas that meet have as many micro-batches of a
// mini-batch.
func validateMeetings(n *network, examples int, all []portion) error {
	for r := range all {
		from, _ := n.scopeOf(r)
		if a, b := len(all[from].sizes), len(all[r].sizes); a != b && all[from].meets() {
			return fmt.Errorf("a mini-batch of %d examples gives replicas %d and %d micro-batches, and batch norm over replicas wants as many on each: want %d examples or more, a multiple of %d, or the scope replica",
				examples, a, b, n.Replicas*n.MicroBatches, n.Replicas)
		}
	}
	return nil
}
