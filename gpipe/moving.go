package gpipe

import (
	"slices"
	"unsafe"

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
