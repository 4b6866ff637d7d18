package gpipe

import (
	"gpipebench/nn/program"
)

// Stages whose images are divided over parts (Pipeline.Spatial). Programs run on all parts in
// lock step (package program); here are their memory and threads. The first part is the
// stage's device: what crosses the stage's edge, gradients, the optimiser's state and the
// update are its alone, and it hands the new weights to the others at the next step's start.

// handOut gives the parts of the stage the first part's weights.
func (d *device) handOut() {
	threads := d.pool.Threads()
	d.tasks.Do(func(thread int) {
		part := thread/threads - 1
		if part < 0 || thread%threads > 0 {
			return
		}
		for c := range d.net.Pieces.On(d.k) {
			copy(d.parts[part].slot(c, program.Params, 0), d.mem.slot(c, program.Params, 0))
		}
	})
	for _, part := range d.parts {
		for c := range d.net.Pieces.On(d.k) {
			part.touch(c, program.Params, 0, len(part.slot(c, program.Params, 0)))
		}
	}
}
