package gpipe

import (
	"slices"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

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
func tallyFloats(n *network, device int) (floats int) {
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

// reduceBuffers is the number and the size of the buffers, in the workspace, with which a
// device adds up the messages with chunks that its replica owns.
func (n *network) reduceBuffers(at place.Place) (buffers, floats int) {
	if n.Replicas == 1 {
		return 0, 0
	}
	if floats = n.reducedLayout(at.Stage).LargestMessage(n.Replicas, at.Replica); floats == 0 {
		return 0, 0
	}
	return reduction.Buffers(n.Replicas, at.Replica, n.InProcess), floats
}

// reduceFloats is the workspace that these buffers take.
func reduceFloats(n *network, at place.Place) int {
	buffers, floats := n.reduceBuffers(at)
	if buffers == 0 {
		return 0
	}
	return (buffers-1)*program.AlignUp(floats) + floats
}

// normed is how many elements of parameters that adapt a device sums the squares of.
func normed(n *network, at place.Place) (elems int) {
	if _, layerWise := n.Optimizer.(nn.LayerWise); !layerWise {
		return 0
	}
	adapts := map[*nn.Param]bool{}
	for i := range n.params {
		adapts[n.params[i].Param] = n.params[i].adapts
	}
	var tensors []bool // the stage's trained ones
	for _, p := range n.deviceParams(at.Stage) {
		if !p.Frozen {
			tensors = append(tensors, adapts[p])
			adapts[p] = false // a second copy's are not summed
		}
	}
	layout := n.layout(at.Stage)
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

// sharedFloats is the workspace that the exchange of a shared parameter takes, in
// floats: the sum, then, if there are other devices, what was received.
func (n *network) sharedFloats(p *parameter) int {
	if len(n.devicesOf(p)) == 1 {
		return p.Shape.Elems()
	}
	return program.AlignUp(p.Shape.Elems()) + p.Shape.Elems()
}

// exchanges are the transfers between devices of the gradients of shared weights that are
// reduced: every accumulator goes to every other device that has the weight.
func (n *network) exchanges() (all []clock.Exchange) {
	for i := range n.params {
		p := &n.params[i]
		if !p.shared() || p.gathered {
			continue
		}
		for _, u := range p.uses {
			for _, to := range n.devicesOf(p) {
				if from := n.device(u.stage); to != from {
					all = append(all, clock.Exchange{From: place.Stage(from), To: place.Stage(to), Bytes: int64(p.Shape.Elems()) * floatBytes})
				}
			}
		}
	}
	return all
}

// exchangeFloats is the largest sharedFloats of a device's shared parameters.
func exchangeFloats(n *network, device int) int {
	most := 0
	for i := range n.params {
		p := &n.params[i]
		if p.shared() && !p.gathered && slices.Contains(n.devicesOf(p), device) {
			most = max(most, n.sharedFloats(p))
		}
	}
	return most
}
