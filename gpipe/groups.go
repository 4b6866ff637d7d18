package gpipe

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn/program"
)

// A mini-batch is cut into G consecutive groups of examples, and replica r of R takes
// the groups from r G/R on. What is added up over examples (gradients, losses,
// statistics) is one chain within a group, and groups are combined in a fixed way, so
// the bits depend on G and not on R. A replica runs its groups one after another in
// the same fill and drain.

// MaxReplicas is the most replicas that a pipeline may have.
const MaxReplicas = 1 << 16

// AllReduce describes how the gradients of replicas are added up, for its time alone:
// real ones are added up as package reduction says. The zero value takes no time for
// links.
type AllReduce struct {
	Kind reduction.Kind
	// Torus is the shape of the replicas' links, X x Y = R, for reduction.Torus.
	Torus [2]int
	Link  timeline.Link // between replicas
}

// addLinks adds the time that adding up a stage's gradients takes on the replicas'
// links. If updates are divided, weights are gathered after them instead of gradients
// before.
func (n *network) addLinks(t *StageTimes, stage int) {
	if n.Replicas < 2 {
		return
	}
	a, x, y := n.AllReduce, n.Replicas, 1
	if a.Kind == reduction.Torus {
		x, y = a.Torus[0], a.Torus[1]
	}
	reduce, gather := reduction.Cost(a.Kind, x, y, n.gradientBytes(stage), a.Link)
	t.Reduce += reduce
	if n.ShardUpdate {
		t.Gather += gather
	} else {
		t.Reduce += gather
	}
}

// updated is the part of each of a stage's trained parameters that a replica updates: all
// of it, or, if updates are divided, what it owns of the sums, which is consecutive.
func (n *network) updated(at place.Place) []reduction.Block {
	sizes := n.sumSizes(at.Stage)
	parts := make([]reduction.Block, len(sizes))
	for i, size := range sizes {
		parts[i] = reduction.Block{Tensor: i, To: size}
	}
	if !n.ShardUpdate {
		return parts
	}
	for i := range parts {
		parts[i].To = 0
	}
	layout := reduction.NewLayout(sizes)
	from, to := layout.Owned(n.Replicas, at.Replica)
	for chunk := from; chunk < to; chunk++ {
		for _, b := range layout.Blocks(chunk) {
			if parts[b.Tensor].To == 0 {
				parts[b.Tensor].From = b.From
			}
			parts[b.Tensor].To = b.To
		}
	}
	return parts
}

// gradientBytes is the size of a stage's gradients, the uses of a weight added up.
func (n *network) gradientBytes(k int) (bytes float64) {
	for _, size := range n.sumSizes(k) {
		bytes += float64(size) * floatBytes
	}
	return bytes
}

// validateGroups checks replicas and groups of a pipeline that has its defaults.
func (p Pipeline) validateGroups(in Input) error {
	r, g := p.Replicas, p.Groups
	switch {
	case r < 1 || r > MaxReplicas:
		return fmt.Errorf("%d replicas: want 1 to %d", r, MaxReplicas)
	case g < 1:
		return fmt.Errorf("%d groups: want 1 or more", g)
	case g > in.Examples:
		return fmt.Errorf("%d groups of a mini-batch of %d: want at most one group an example", g, in.Examples)
	case g%r != 0 || r > 1 && bits.OnesCount(uint(g/r)) != 1:
		return fmt.Errorf("%d groups on %d replicas: want %d, %d, %d, ... groups (a power of two on each replica), or one replica, which takes any number", g, r, r, 2*r, 4*r)
	case p.AllReduce.Kind == reduction.Torus && r > 1 && p.AllReduce.Torus[0]*p.AllReduce.Torus[1] != r:
		return fmt.Errorf("a torus of %d x %d for %d replicas: want as many", p.AllReduce.Torus[0], p.AllReduce.Torus[1], r)
	case p.MicroBatches > in.Examples/g:
		return fmt.Errorf("%d micro-batches in each of %d groups of a mini-batch of %d: want at most one micro-batch an example", p.MicroBatches, g, in.Examples)
	}
	return nil
}

// portion is a replica's part of a mini-batch: consecutive groups of examples, cut into
// micro-batches, which are numbered from 0 over all of the replica's groups.
type portion struct {
	sizes  []int // examples of each micro-batch
	firsts []int // index, in the mini-batch, of its first example
	ends   []int // of each group: the number of micro-batches up to its end

	programs []compiled        // of each micro-batch
	lists    [][]schedule.Task // of each stage
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

// groupIsEmpty reports whether a group has no examples, as at an epoch's end.
func (s *portion) groupIsEmpty(g int) bool {
	return s.ends[g] == 0 || g > 0 && s.ends[g] == s.ends[g-1]
}

// portions are the replicas' parts of a mini-batch like in, with the programs of each
// micro-batch and the lists of each stage.
func (n *network) portions(in Input, what purpose) ([]portion, error) {
	all, planned := n.divide(in.Examples, what), n.divide(n.largestInput(what).Examples, what)
	for r := range all {
		s := &all[r]
		var err error
		if s.programs, err = n.forEach(in, s.sizes, what, planned[r].largest()); err != nil {
			return nil, err
		}
		if what == training {
			s.lists, err = n.taskLists(len(s.sizes))
		} else {
			s.lists = forwardLists(n.Partitions, len(s.sizes))
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// forEach returns the programs for micro-batches of these sizes, of which there are
// few different ones, in the memory planned for the largest.
func (n *network) forEach(in Input, sizes []int, what purpose, largest int) ([]compiled, error) {
	all := make([]compiled, len(sizes))
	for m, size := range sizes {
		if m > 0 && size == sizes[m-1] {
			all[m] = all[m-1]
			continue
		}
		c, err := n.programs(in, size, what, largest)
		if err != nil {
			return nil, err
		}
		all[m] = c
	}
	return all, nil
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

// largest is the size of the portion's largest micro-batch, the first; 0: it has none.
func (s *portion) largest() int {
	if len(s.sizes) == 0 {
		return 0
	}
	return s.sizes[0]
}

func forwardLists(stages, micro int) [][]schedule.Task {
	lists := make([][]schedule.Task, stages)
	for k := range lists {
		for m := range micro {
			lists[k] = append(lists[k], schedule.Task{Kind: schedule.Forward, Micro: m})
		}
	}
	return lists
}

// deviceOf is the number of a place's device.
func (n *network) deviceOf(at place.Place) int { return at.Replica*n.Partitions + at.Stage }

// planGroups adds what a device needs to add up a replica's groups: besides the running
// group's accumulators and tallies, which are the programs', the sums of groups before
// it, and each group's tallies.
func (n *network) planGroups(k int, in *planInput) {
	_, span := program.Layout(n.sumSizes(k))
	for range n.sums() {
		in.slots[program.Grads] = append(in.slots[program.Grads], span)
	}
	for range n.tallies() {
		in.slots[program.Grads] = append(in.slots[program.Grads], n.tallyFloats(k))
	}
}

// sums is how many sums of groups a device has for each weight, and tallies the number
// of copies that it has of a tally.
func (n *network) sums() int {
	if n.Groups == 1 || !n.trains() {
		return 0
	}
	return reduction.Depth(n.Groups / n.Replicas)
}

func (n *network) tallies() int {
	if n.Groups == 1 || !n.trains() {
		return 0
	}
	return n.Groups / n.Replicas
}

// sumSizes are the sizes of stage k's trained parameters, in the order of their weights.
func (n *network) sumSizes(k int) (sizes []int) {
	for _, p := range n.stageParams(k) {
		if !p.Frozen {
			sizes = append(sizes, p.Shape.Elems())
		}
	}
	return sizes
}

// tallyFloats is the memory of all tallies of stage k.
func (n *network) tallyFloats(k int) (floats int) {
	for _, m := range n.moving[k] {
		floats += 2 * tallyBytes / 8 * m.Mean.Shape.Elems()
	}
	return floats
}

// findSums finds the sums of groups and the groups' tallies in the arena.
func (d *device) findSums() {
	n := d.net
	offsets, _ := program.Layout(n.sumSizes(d.k))
	for place := range n.sums() {
		slot := d.mem.slot(program.Grads, 1+place)
		for i := range d.weights {
			w := &d.weights[i]
			w.sums = append(w.sums, slot[offsets[i]:offsets[i]+len(w.w)])
		}
	}
	for g := range n.tallies() {
		slot := d.mem.slot(program.Grads, 1+n.sums()+g)
		for i := range d.moving {
			m := &d.moving[i]
			all := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(slot))), len(m.tally))
			m.groups = append(m.groups, all)
			slot = slot[2*len(m.tally):]
		}
	}
}
