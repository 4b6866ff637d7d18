package plan

import (
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// Updated is the part of each of a stage's trained parameters that a replica updates: all
// of it, or, if updates are divided, what it owns of the sums, which is consecutive.
func (n *Network) Updated(at place.Place) []reduction.Block {
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
	layout := n.Layout(at.Stage)
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

// GradientBytes is the size of a stage's gradients that are reduced, the uses of a weight
// added up.
func (n *Network) GradientBytes(k int) (bytes float64) {
	for _, size := range n.Reduced[k] {
		bytes += float64(float64(size) * FloatBytes)
	}
	return bytes
}

// Sums is how many sums of groups a device has for each weight, and Tallies the number
// of copies that it has of a tally.
func (n *Network) Sums() int {
	if n.Groups == 1 || !n.Trains() {
		return 0
	}
	return reduction.Depth(n.Groups / n.Replicas)
}

func (n *Network) Tallies() int {
	switch {
	case !n.Trains():
		return 0
	case n.Asynchronous(): // of the mini-batches in flight
		return min(n.Window, n.Partitions)
	case n.Groups == 1:
		return 0
	}
	return n.Groups / n.Replicas
}

// Layout is how the sums of a stage's gradients are cut into chunks, which replicas own.
// It is made when it is first asked for, which must be before stages run: all replicas
// share it.
func (n *Network) Layout(k int) *reduction.Layout {
	if n.layouts[k] == nil {
		n.layouts[k] = reduction.NewLayout(n.trained[k])
	}
	return n.layouts[k]
}

// tallyFloats is the memory of all tallies of a device.
func tallyFloats(n *Network, device int) (floats int) {
	for _, piece := range n.Pieces.On(device) {
		for _, m := range n.Moving[piece] {
			floats += 2 * tallyBytes / 8 * m.Mean.Shape.Elems()
		}
	}
	return floats
}

// ReducedLayout is layout without the gradients that are gathered: what the replicas'
// all-reduce carries.
func (n *Network) ReducedLayout(k int) *reduction.Layout {
	if len(n.Tables) == 0 {
		return n.Layout(k)
	}
	return reduction.NewLayout(n.Reduced[k])
}

// ReduceBuffers is the number and the size of the buffers, in the workspace, with which a
// device adds up the messages with chunks that its replica owns.
func (n *Network) ReduceBuffers(at place.Place) (buffers, floats int) {
	if n.Replicas == 1 {
		return 0, 0
	}
	if floats = n.ReducedLayout(at.Stage).LargestMessage(n.Replicas, at.Replica); floats == 0 {
		return 0, 0
	}
	return reduction.Buffers(n.Replicas, at.Replica, n.InProcess), floats
}

// reduceFloats is the workspace that these buffers take.
func reduceFloats(n *Network, at place.Place) int {
	buffers, floats := n.ReduceBuffers(at)
	if buffers == 0 {
		return 0
	}
	return (buffers-1)*program.AlignUp(floats) + floats
}

// normed is how many elements of parameters that adapt a device sums the squares of.
func normed(n *Network, at place.Place) (elems int) {
	if _, layerWise := n.Optimizer.(nn.LayerWise); !layerWise {
		return 0
	}
	adapts := map[*nn.Param]bool{}
	for i := range n.Params {
		adapts[n.Params[i].Param] = n.Params[i].Adapts
	}
	var tensors []bool // the stage's trained ones
	for _, s := range n.Slices(at.Stage) {
		tensors = append(tensors, adapts[s.Param])
		adapts[s.Param] = adapts[s.Param] && s.Runs != nil // a second copy's are not summed
	}
	layout := n.Layout(at.Stage)
	from, to := 0, layout.Chunks()
	if n.Groups > 1 {
		from, to = layout.Owned(n.Replicas, at.Replica)
	}
	for chunk := from; chunk < to; chunk++ {
		for _, b := range layout.Blocks(chunk) {
			if tensors[b.Tensor] {
				elems += b.Len()
			}
		}
	}
	return elems
}

// SharedFloats is the workspace that the exchange of a shared parameter takes, in
// floats: the sum, then, if there are other devices, what was received.
func (n *Network) SharedFloats(p *Parameter) int {
	if len(n.DevicesOf(p)) == 1 {
		return p.Shape.Elems()
	}
	return program.AlignUp(p.Shape.Elems()) + p.Shape.Elems()
}

// Exchanges are the transfers between devices of the gradients of shared weights that are
// reduced: every accumulator goes to every other device that has the weight.
func (n *Network) Exchanges() (all []clock.Exchange) {
	for i := range n.Params {
		p := &n.Params[i]
		if !p.Shared() || p.Gathered {
			continue
		}
		for _, u := range p.Uses {
			for _, to := range n.DevicesOf(p) {
				if from := n.Device(u.Stage); to != from {
					all = append(all, clock.Exchange{From: place.Stage(from), To: place.Stage(to), Bytes: int64(p.Shape.Elems()) * FloatBytes})
				}
			}
		}
	}
	return all
}

// exchangeFloats is the largest SharedFloats of a device's shared parameters.
func exchangeFloats(n *Network, device int) int {
	most := 0
	for i := range n.Params {
		p := &n.Params[i]
		if p.Shared() && !p.Gathered && slices.Contains(n.DevicesOf(p), device) {
			most = max(most, n.SharedFloats(p))
		}
	}
	return most
}
