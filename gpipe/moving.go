package gpipe

import (
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

// tallyBytes is a channel's part of a tally: count, mean and sum of squared
// deviations in float64.
const tallyBytes = 3 * 8

// moving is a pair of averages on a device.
type moving struct {
	nn.Moving
	chunk          int
	mean, variance []float32
	tally          []float64
	groups         [][]float64 // the tallies of this replica's groups; nil if there is one group in all
}

// findMoving finds a piece's averages and tallies in the arena.
func (d *device) findMoving(chunk, piece int, values map[*nn.Param][]float32) {
	if len(d.net.moving[piece]) == 0 {
		return
	}
	grads := d.mem.slot(chunk, program.Grads, 0)
	for i, m := range d.net.moving[piece] {
		o := d.net.largest(piece).Tallies[i]
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
		kernel.MoveStatistics(m.mean, m.variance, m.tally, m.Momentum, m.Unbiased)
	}
}
