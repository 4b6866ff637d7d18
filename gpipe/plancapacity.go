package gpipe

import (
	"fmt"

	"gpipebench/nn"
	"gpipebench/nn/program"
)

// OutOfMemoryError says that a device's capacity does not hold its plan.
type OutOfMemoryError struct {
	Device   int
	Layer    string // the layer at which the capacity was exceeded
	Category Category
	Wanted   int64 // bytes
	Free     int64 // bytes
	Capacity int64 // bytes
}

func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("device %d is out of memory at layer %s: %d bytes wanted for %s, %d free of %d",
		e.Device, e.Layer, e.Wanted, e.Category, e.Free, e.Capacity)
}

// checkCapacity walks a device's memory in the order in which it is set up and
// reports the first piece that does not fit.
func (n *network) checkCapacity(p *Plan) error {
	k := p.At.Stage
	capacity := n.Devices[k].Capacity
	if capacity == 0 || p.Peak <= capacity {
		return checkParts(n, p, capacity)
	}
	free := capacity
	take := func(layer string, c Category, bytes int64) error {
		if bytes > free {
			return &OutOfMemoryError{n.deviceOf(p.At), layer, c, bytes, free, capacity}
		}
		free -= bytes
		return nil
	}
	per, perState := int64(1+n.sums()), int64(floatBytes)
	updated := n.updated(p.At) // in the order of the stage's trained parameters
	if n.trains() {
		per++                                             // the gradient
		perState += int64(1+n.tallies()) * tallyBytes / 2 // a moving average's half of a tally
	}
	weights := func(l nn.Layer, seen map[*nn.Param]bool) error {
		var bytes int64
		for _, q := range l.Params() {
			switch {
			case seen[q]:
			case q.State:
				bytes += int64(q.Shape.Elems()) * perState
			case q.Frozen:
				bytes += int64(q.Shape.Elems()) * floatBytes
			default:
				if gathers(n, q) { // the sums of groups take the place of rows
					bytes -= int64(q.Shape.Elems()*n.sums()) * floatBytes
				}
				bytes += int64(q.Shape.Elems())*floatBytes*per + int64(updated[0].Len()*n.stateSlots())*floatBytes
				updated = updated[1:]
			}
			seen[q] = true
		}
		return take(l.Name(), Parameters, bytes)
	}
	for _, piece := range n.pieces.On(k) {
		seen := map[*nn.Param]bool{}
		for _, l := range n.stageLayers(piece) {
			if err := weights(l, seen); err != nil {
				return err
			}
		}
	}
	for i := range n.tables {
		if t := &n.tables[i]; t.on(k) {
			if err := take(n.params[t.param].path, Gradients, t.bytes(0, t.rows)); err != nil {
				return err
			}
		}
	}
	for c, piece := range n.pieces.On(k) {
		st, slots := n.largest(piece), &p.chunks[c]
		first := n.layerName(n.first[piece])
		var boundary int64
		for s, of := range slots {
			for _, slot := range of {
				if categoryOf[s] == Boundary {
					boundary += int64(slot.span) * floatBytes
				}
			}
		}
		if len(p.chunks) == 1 {
			boundary = p.Bytes[Boundary]
		}
		if err := take(first, Boundary, boundary); err != nil {
			return err
		}
		statistics := int64(len(slots[program.Statistics])) * int64(st.Span[program.Statistics]) * floatBytes
		if err := take(first, Residuals, statistics); err != nil {
			return err
		}
		last := n.first[piece] + n.sizes[piece]
		for i := n.first[piece]; i <= last; i++ {
			var floats int
			for _, s := range []program.Space{program.Residual, program.Lasting, program.Between} {
				floats += len(slots[s]) * st.SavedIn[s][i]
			}
			if err := take(n.layerName(i), Residuals, int64(floats)*floatBytes); err != nil {
				return err
			}
		}
	}
	// The rest of the peak is the workspace and the padding between tensors.
	where := n.layerName(p.widest.Widest())
	if p.widestFor != training && n.trains() {
		where += " in " + p.widestFor.String()
	}
	return &OutOfMemoryError{n.deviceOf(p.At), where, Workspace, p.Peak - (capacity - free), free, capacity}
}

// checkParts reports the first part of a stage that does not fit a device.
func checkParts(n *network, p *Plan, capacity int64) error {
	for _, part := range p.Parts {
		if capacity > 0 && part.Peak > capacity {
			return &OutOfMemoryError{n.deviceOf(p.At), n.layerName(part.widest.Widest()), Workspace, part.Bytes[Workspace], capacity - (part.Peak - part.Bytes[Workspace]), capacity}
		}
	}
	return nil
}
