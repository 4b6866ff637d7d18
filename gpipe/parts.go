package gpipe

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Stages whose images are divided over parts (Pipeline.Spatial). Programs run on all parts in
// lock step (package program); here are their memory and threads. The first part is the
// stage's device: what crosses the stage's edge, gradients, the optimiser's state and the
// update are its alone, and it hands the new weights to the others at the next step's start.

// MaxParts is the most parts over which a stage may divide images.
const MaxParts = 64

// validateParts checks the number of parts of a pipeline that has its defaults, whose lists
// are given.
func (p Pipeline) validateParts(in Input, lists [][]schedule.Task) error {
	if p.Spatial < 1 || p.Spatial > MaxParts {
		return fmt.Errorf("%d parts of images: want 1 to %d", p.Spatial, MaxParts)
	}
	if p.Spatial == 1 {
		return nil
	}
	in = p.opensFor(in)
	i := slices.IndexFunc(in.Inputs, func(t graph.Type) bool { return len(t.Shape) == 3 && t.DType == graph.F32 })
	switch {
	case i < 0:
		return fmt.Errorf("%d parts of images, and no input has images: want 1", p.Spatial)
	case in.Inputs[i].Shape[0] < p.Spatial:
		return fmt.Errorf("%d parts of images of %d rows: want a row for each at least", p.Spatial, in.Inputs[i].Shape[0])
	case p.DType != graph.F32:
		return fmt.Errorf("%d parts of images with activations of type %v: want f32, or 1", p.Spatial, p.DType)
	case p.wide():
		return fmt.Errorf("%d parts of images with batch norm over replicas: want the scope replica, or 1", p.Spatial)
	case schedule.Splits(lists):
		return fmt.Errorf("%d parts of images with a backward function in two: want a schedule without W, or 1", p.Spatial)
	case slices.ContainsFunc(p.Devices, func(d Device) bool { return d.Overcommit }):
		return fmt.Errorf("%d parts of images on overcommitted devices: want others, or 1", p.Spatial)
	}
	return nil
}

// planPart makes the memory plan of a part of a stage after the first: its weights, its rows
// of residuals, and a workspace. Part counts from 0.
func (n *network) planPart(at place.Place, part int, shares [predicting + 1]*portion) *Plan {
	pieces := n.pieces.On(at.Stage)
	in := planInput{chunks: make([]chunkInput, len(pieces))}
	in.workspace(0)
	uses := func(p *program.Program, what purpose) {
		if p.Span >= in.chunks[0].slots[program.Workspace][0] {
			in.widest, in.widestFor = p, what
		}
		in.workspace(max(p.Span, in.chunks[0].slots[program.Workspace][0]))
	}
	for c, piece := range pieces {
		in.chunks[c].hold(program.Params, 0, n.largest(piece).Parts[part].Span[program.Params])
		for what, s := range shares {
			switch {
			case s == nil:
			case purpose(what) != training:
				for _, programs := range s.programs {
					uses(programs[piece].Parts[part].Forward, purpose(what))
				}
			case len(s.programs) > 0:
				list := ofChunk(s.lists[at.Stage], c)
				of := func(m int) *program.Stage { return s.programs[m][piece].Parts[part] }
				for _, t := range list {
					uses(programOf(of(t.Micro), t), training)
				}
				_, residuals := schedule.InFlight(list)
				in.chunks[c].holdAlong(list, program.Residual, residuals, schedule.Task.MakesResiduals, schedule.Task.FreesResiduals, of)
			}
		}
	}
	p := newPlan(in)
	p.At = at
	return p
}

// checkParts reports the first part of a stage that does not fit a device.
func (n *network) checkParts(p *Plan, capacity int64) error {
	for _, part := range p.Parts {
		if capacity > 0 && part.Peak > capacity {
			return &OutOfMemoryError{n.deviceOf(p.At), n.layerName(part.widest.Widest()), Workspace, part.Bytes[Workspace], capacity - (part.Peak - part.Bytes[Workspace]), capacity}
		}
	}
	return nil
}

// handOut gives the parts of the stage the first part's weights.
func (d *device) handOut() {
	threads := d.pool.Threads()
	d.tasks.Do(func(thread int) {
		part := thread/threads - 1
		if part < 0 || thread%threads > 0 {
			return
		}
		for c := range d.net.pieces.On(d.k) {
			copy(d.parts[part].slot(c, program.Params, 0), d.mem.slot(c, program.Params, 0))
		}
	})
	for _, part := range d.parts {
		for c := range d.net.pieces.On(d.k) {
			part.touch(c, program.Params, 0, len(part.slot(c, program.Params, 0)))
		}
	}
}
