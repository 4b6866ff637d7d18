package plan

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

// CheckCapacity walks a device's memory in the order in which it is set up and
// reports the first piece that does not fit.
func (n *Network) CheckCapacity(p *Plan) error {
	k := p.At.Stage
	capacity := n.Devices[k].Capacity
	if capacity == 0 || p.Peak <= capacity {
		return checkParts(n, p, capacity)
	}
	free := capacity
	take := func(layer string, c Category, bytes int64) error {
		if bytes > free {
			return &OutOfMemoryError{n.DeviceOf(p.At), layer, c, bytes, free, capacity}
		}
		free -= bytes
		return nil
	}
	versions := int64(p.Versions())
	per, perState, perFrozen := versions+int64(n.Sums()), versions*FloatBytes, versions*FloatBytes
	own := n.Slices(k)         // in the order of the stage's trained parameters
	updated := n.Updated(p.At) // of these
	if n.Trains() {
		perState += int64(1+n.Tallies()) * tallyBytes / 2 // a moving average's half of a tally
	}
	for _, piece := range n.Pieces.On(k) {
		layers, params := n.stageLayers(piece), n.StageParams(piece)
		bytes := make([]int64, len(layers))
		gradients := map[*nn.Param]int64{} // how many accumulators each has
		for _, u := range n.Largest(piece).Uses {
			gradients[params[u.Param]]++
		}
		eachParam(layers, func(layer int, q *nn.Param) {
			elems := int64(q.Shape.Elems())
			switch {
			case q.State:
				bytes[layer] += elems * perState
			case q.Frozen:
				bytes[layer] += elems * perFrozen
			default:
				elems = int64(own[0].Elems)
				if gathers(n, q) { // the sums of groups take the place of rows
					bytes[layer] -= elems * int64(n.Sums()) * FloatBytes
				}
				bytes[layer] += elems*FloatBytes*(per+gradients[q]) + int64(updated[0].Len()*n.stateSlots())*FloatBytes
				more := 1
				for more < len(own) && own[more].Part > 0 && own[more].Param == q {
					more++
				}
				own, updated = own[more:], updated[more:]
			}
		})
		for i, l := range layers {
			if err := take(l.Name(), Parameters, bytes[i]); err != nil {
				return err
			}
		}
	}
	for i := range n.Tables {
		if t := &n.Tables[i]; t.On(k) {
			if err := take(n.Params[t.Param].Path, Gradients, t.Bytes(0, t.Rows)); err != nil {
				return err
			}
		}
	}
	for c, piece := range n.Pieces.On(k) {
		st, slots := n.Largest(piece), &p.Chunks[c]
		first := n.LayerName(n.First[piece])
		var boundary int64
		for s, of := range slots {
			for _, slot := range of {
				if CategoryOf[s] == Boundary {
					boundary += int64(slot.Span) * FloatBytes
				}
			}
		}
		if len(p.Chunks) == 1 {
			boundary = p.Bytes[Boundary]
		}
		if err := take(first, Boundary, boundary); err != nil {
			return err
		}
		statistics := int64(len(slots[program.Statistics])) * int64(st.Span[program.Statistics]) * FloatBytes
		if err := take(first, Residuals, statistics); err != nil {
			return err
		}
		last := n.First[piece] + n.Sizes[piece]
		for i := n.First[piece]; i <= last; i++ {
			var floats int
			for _, s := range []program.Space{program.Residual, program.Lasting, program.Between} {
				floats += len(slots[s]) * st.SavedIn[s][i]
			}
			if err := take(n.LayerName(i), Residuals, int64(floats)*FloatBytes); err != nil {
				return err
			}
		}
	}
	// The rest of the peak is the workspace and the padding between tensors.
	where := n.LayerName(p.widest.Widest())
	if p.widestFor != Training && n.Trains() {
		where += " in " + p.widestFor.String()
	}
	return &OutOfMemoryError{n.DeviceOf(p.At), where, Workspace, p.Peak - (capacity - free), free, capacity}
}

// checkParts reports the first part of a stage that does not fit a device.
func checkParts(n *Network, p *Plan, capacity int64) error {
	for _, part := range p.Parts {
		if capacity > 0 && part.Peak > capacity {
			return &OutOfMemoryError{n.DeviceOf(p.At), n.LayerName(part.widest.Widest()), Workspace, part.Bytes[Workspace], capacity - (part.Peak - part.Bytes[Workspace]), capacity}
		}
	}
	return nil
}
