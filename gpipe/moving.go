package gpipe

import (
	"context"
	"slices"
	"unsafe"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/internal/kernel"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// Moving averages of batch norm (Huang et al. 2019, section 2.2). A stage's
// forward tasks add the statistics of each micro-batch to a tally beside the
// gradients' accumulators; recomputations do not. The update moves the averages
// once, by the statistics of the whole mini-batch. Micro-batches come in ascending
// order in every schedule, so the bits are the same for all schedules.

// moving is a pair of averages on a device.
type moving struct {
	nn.Moving
	chunk          int
	mean, variance []float32
	tally          []float64
	// groups are the tallies of this replica's groups, or of a window's mini-batches in flight, by
	// turns; nil if there is one group in all.
	groups [][]float64
}

// findMoving finds a piece's averages and tallies in the arena.
func (d *device) findMoving(chunk, piece int, values map[*nn.Param][]float32) {
	if len(d.net.Moving[piece]) == 0 {
		return
	}
	grads := d.mem.slot(chunk, program.Grads, 0)
	for i, m := range d.net.Moving[piece] {
		o := d.net.Largest(piece).Tallies[i]
		at := grads[o.Off:o.End()] // at the start of a cache line
		d.moving = append(d.moving, moving{
			Moving: m, chunk: chunk, mean: values[m.Mean], variance: values[m.Variance],
			tally: unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(at))), len(at)/2),
		})
	}
}

// moveStatistics moves the averages by the mini-batch's statistics, of all replicas'
// groups in ascending order.
func (d *device) moveStatistics() {
	for _, m := range d.moving {
		m.move(m.tally)
	}
}

// move moves a pair of averages by the statistics of a mini-batch.
func (m *moving) move(tally []float64) {
	kernel.MoveStatistics(m.mean, m.variance, tally, m.Momentum, m.Unbiased)
}

// findSums finds the sums of groups, the groups' tallies and the places of gathered rows in
// the arena.
func (d *device) findSums() {
	n := d.net
	for part := range 1 + len(d.parts) {
		sizes := slices.Clone(n.Reduced[d.k])
		for i := range sizes {
			if d.weights[i].part != part {
				sizes[i] = 0
			}
		}
		offsets, _ := program.Layout(sizes)
		for place := range n.Sums() {
			for i := range d.weights {
				if w := &d.weights[i]; w.part == part {
					slot := d.memory(part).slot(0, program.Grads, 1+place)
					w.sums = append(w.sums, slot[offsets[i]:offsets[i]+sizes[i]])
				}
			}
		}
	}
	for g := range n.Tallies() {
		slot := d.mem.slot(0, program.Grads, 1+n.Sums()+g)
		for i := range d.moving {
			m := &d.moving[i]
			all := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(slot))), len(m.tally))
			m.groups = append(m.groups, all)
			slot = slot[2*len(m.tally):]
		}
	}
	d.findRows(1 + n.Sums() + n.Tallies())
}

// keepTallies stores a group's tallies once its last forward function has run, and
// begins those of the next.
func (r *chunkRun) keepTallies(micro int) {
	if r.purpose != plan.Training || r.trainer.net.Tallies() == 0 || len(r.dev.moving) == 0 {
		return
	}
	group := r.GroupOf(micro)
	if micro+1 != r.Ends[group] {
		return
	}
	for _, m := range r.dev.moving {
		if m.chunk == r.at.Chunk {
			copy(m.groups[group%len(m.groups)], m.tally)
			clear(m.tally)
		}
	}
}

// gatherTallies makes the tallies those of the whole mini-batch: one chain over all
// groups in ascending order, those of other replicas included.
func (r *stageRun) gatherTallies(ctx context.Context) error {
	n := r.trainer.net
	if n.Groups == 1 || len(r.dev.moving) == 0 {
		return nil
	}
	var own []float64
	for g := range n.Tallies() {
		slot := 1 + n.Sums() + g
		r.dev.mem.touch(0, program.Grads, slot, r.dev.mem.plan.Chunks[0][program.Grads][slot].Span)
		for _, m := range r.dev.moving {
			if r.GroupIsEmpty(g) {
				clear(m.groups[g])
			}
			own = append(own, m.groups[g]...)
		}
	}
	all := [][]float64{own}
	if n.Replicas > 1 {
		var among []place.Place
		for replica := range n.Replicas {
			among = append(among, place.Place{Replica: replica, Stage: r.k})
		}
		var err error
		if all, err = r.gather(ctx, among, own); err != nil {
			return err
		}
	}
	for _, m := range r.dev.moving {
		clear(m.tally)
	}
	for _, groups := range all {
		for len(groups) > 0 {
			for _, m := range r.dev.moving {
				kernel.CombineTallies(m.tally, groups[:len(m.tally)])
				groups = groups[len(m.tally):]
			}
		}
	}
	return nil
}

// tallies returns a mini-batch's sums for the moving averages, by pair of averages.
func (r *stageRun) tallies(mini int) (all [][]float64) {
	n, mem := r.trainer.net, r.dev.mem
	at := mini % n.Tallies()
	slot := 1 + n.Sums() + at
	mem.touch(0, program.Grads, slot, mem.plan.Chunks[0][program.Grads][slot].Span)
	for _, m := range r.dev.moving {
		all = append(all, m.groups[at])
	}
	return all
}
