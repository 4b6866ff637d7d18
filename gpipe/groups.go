package gpipe

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
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
	Link  clock.Link // between replicas
}

// Seconds is the time that links take to add up gradients of so many bytes: to give each
// replica its part of the sums, and to hand these to all.
func (a AllReduce) Seconds(replicas int, bytes float64) (reduce, gather float64) {
	if replicas < 2 {
		return 0, 0
	}
	x, y := replicas, 1
	if a.Kind == reduction.Torus {
		x, y = a.Torus[0], a.Torus[1]
	}
	return reduction.Cost(a.Kind, x, y, bytes, a.Link)
}

// among is the all-reduce over n consecutive ones of the replicas: of a torus, whole rows
// of it, or else a line.
func (a AllReduce) among(n int) AllReduce {
	if x := a.Torus[0]; a.Kind == reduction.Torus {
		a.Torus = [2]int{n, 1}
		if n%x == 0 {
			a.Torus = [2]int{x, n / x}
		}
	}
	return a
}

// addLinks adds the time that adding up a device's gradients and statistics takes on the
// replicas' links, and gathering rows. If updates are divided, weights are gathered after
// them instead of gradients before.
func (n *network) addLinks(t *StageTimes, at place.Place, rows []tableRows) {
	t.addMeetingLinks(n.AllReduce.among(n.together()), n.together())
	stage := at.Stage
	if at.Chunk > 0 { // what is the device's is counted with its first chunk
		return
	}
	reduce, gather := n.AllReduce.Seconds(n.Replicas, n.gradientBytes(stage))
	t.Reduce += reduce
	for i := range rows {
		if rows[i].on(stage) {
			_, gather := n.AllReduce.Seconds(n.Replicas, float64(rows[i].bytes(0, rows[i].rows)))
			t.Rows += gather
		}
	}
	if n.ShardUpdate {
		t.Gather += gather
	} else {
		t.Reduce += gather
	}
}

// updated is the part of each of a stage's trained parameters that a replica updates: all
// of it, or, if updates are divided, what it owns of the sums, which is consecutive.
func (n *network) updated(at place.Place) []reduction.Block {
	parts := make([]reduction.Block, len(n.trained[at.Stage]))
	for i, size := range n.trained[at.Stage] {
		parts[i] = reduction.Block{Tensor: i, To: size}
	}
	if !n.ShardUpdate {
		return parts
	}
	for i := range parts {
		parts[i].To = 0
	}
	layout := n.layout(at.Stage)
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

// gradientBytes is the size of a stage's gradients that are reduced, the uses of a weight
// added up.
func (n *network) gradientBytes(k int) (bytes float64) {
	for _, size := range n.reduced[k] {
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
	case p.TiedGradients > GatherTied:
		return fmt.Errorf("unknown way %d of tied gradients: want reduce or gather", p.TiedGradients)
	case p.TiedGradients == GatherTied && p.ShardUpdate:
		return fmt.Errorf("gathered gradients of tied tables with divided updates: want one of them, since every replica adds up all gathered rows")
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

// portions are the replicas' parts of a mini-batch like in, with the programs of each
// micro-batch and the lists of each stage.
func (n *network) portions(in Input, what purpose) ([]portion, error) {
	all, planned := n.divide(in.Examples, what), n.divide(n.largestInput(what).Examples, what)
	for r := range all {
		s := &all[r]
		if r > 0 && slices.Equal(s.sizes, all[r-1].sizes) && planned[r].largest() == planned[r-1].largest() {
			s.programs, s.lists = all[r-1].programs, all[r-1].lists
			continue
		}
		var err error
		if s.programs, err = n.forEach(in, s.sizes, what, planned[r].largest()); err != nil {
			return nil, err
		}
		if what == training {
			s.lists, err = n.taskLists(s)
		} else {
			s.lists = n.forwardLists(len(s.sizes))
		}
		if err != nil {
			return nil, err
		}
	}
	return all, n.validateMeetings(in.Examples, all)
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

// deviceOf is the number of a place's device.
func (n *network) deviceOf(at place.Place) int { return at.Replica*n.Partitions + at.Stage }

// planGroups adds what a device needs to add up a replica's groups: besides the running
// group's accumulators and tallies, which are the programs', the sums of groups before
// it, each group's tallies, and the rows of gathered gradients.
func (n *network) planGroups(k int, in *planInput) {
	_, span := program.Layout(n.reduced[k])
	grads := &in.chunks[0].slots[program.Grads]
	for range n.sums() {
		*grads = append(*grads, span)
	}
	for range n.tallies() {
		*grads = append(*grads, n.tallyFloats(k))
	}
	for i := range n.tables {
		if t := &n.tables[i]; t.on(k) {
			*grads = append(*grads, t.rows*t.dim, t.rows)
		}
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

// layout is how the sums of a stage's gradients are cut into chunks, which replicas own.
// It is made when it is first asked for, which must be before stages run: all replicas
// share it.
func (n *network) layout(k int) *reduction.Layout {
	if n.layouts[k] == nil {
		n.layouts[k] = reduction.NewLayout(n.trained[k])
	}
	return n.layouts[k]
}

// tallyFloats is the memory of all tallies of a device.
func (n *network) tallyFloats(device int) (floats int) {
	for _, piece := range n.pieces.On(device) {
		for _, m := range n.moving[piece] {
			floats += 2 * tallyBytes / 8 * m.Mean.Shape.Elems()
		}
	}
	return floats
}

// reducedLayout is layout without the gradients that are gathered: what the replicas'
// all-reduce carries.
func (n *network) reducedLayout(k int) *reduction.Layout {
	if len(n.tables) == 0 {
		return n.layout(k)
	}
	return reduction.NewLayout(n.reduced[k])
}

// findSums finds the sums of groups, the groups' tallies and the places of gathered rows in
// the arena.
func (d *device) findSums() {
	n := d.net
	offsets, _ := program.Layout(n.reduced[d.k])
	for place := range n.sums() {
		slot := d.mem.slot(0, program.Grads, 1+place)
		for i := range d.weights {
			w := &d.weights[i]
			w.sums = append(w.sums, slot[offsets[i]:offsets[i]+n.reduced[d.k][i]])
		}
	}
	for g := range n.tallies() {
		slot := d.mem.slot(0, program.Grads, 1+n.sums()+g)
		for i := range d.moving {
			m := &d.moving[i]
			all := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(slot))), len(m.tally))
			m.groups = append(m.groups, all)
			slot = slot[2*len(m.tally):]
		}
	}
	d.findRows(1 + n.sums() + n.tallies())
}
