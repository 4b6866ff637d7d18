package gpipe

import (
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/nn"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
)

// Stages in parts, which divide images (Pipeline.Spatial) or operations (Pipeline.Tensor). Programs run
// on all parts in lock step (package program); here are their memory, weights and threads. The first part
// is the stage's device: what crosses the stage's edge is its alone, and so are the gradients, the
// optimiser's state and the update of what all parts have alike, whose new values it hands to the others
// at the next step's start. The slices of parameters that parts of operations divide are weights of
// their own, in the memory of the part that has them.

// memory is a part's.
func (d *device) memory(part int) *memory {
	if part == 0 {
		return d.mem
	}
	return d.parts[part-1]
}

// partOf is one of a stage's parts.
func partOf(st *program.Stage, i int) *program.Stage {
	if i == 0 {
		return st
	}
	return st.Parts[i-1]
}

// handOut gives the parts of the stage the first part's weights, but for those that parts divide.
func (d *device) handOut() {
	if len(d.parts) == 0 {
		return
	}
	threads := d.pool.Threads()
	d.eachAlike(func(to, c int, into, of program.Operand) {
		d.parts[to-1].touch(c, program.Params, 0, into.End())
	})
	d.tasks.Do(func(thread int) {
		own := thread / threads
		if own == 0 || thread%threads > 0 {
			return
		}
		d.eachAlike(func(to, c int, into, of program.Operand) {
			if to == own {
				copy(d.parts[to-1].slot(c, program.Params, 0)[into.Off:into.End()], d.mem.slot(c, program.Params, 0)[of.Off:of.End()])
			}
		})
	})
}

// eachAlike calls f for every parameter and constant that a part after the first has whole: its place,
// and that of the first part's.
func (d *device) eachAlike(f func(to, chunk int, into, of program.Operand)) {
	for c, piece := range d.net.Pieces.On(d.k) {
		st := d.net.Largest(piece)
		for j, p := range d.net.StageParams(piece) {
			if d.net.Tensor > 1 && p.Split.Units > 0 {
				continue
			}
			for i, of := range st.Parts {
				f(i+1, c, of.Params[j], st.Params[j])
			}
		}
	}
}

// drawnAtOnce is how many elements of a parameter that parts divide are drawn before they are handed to
// the parts: no device holds the whole.
const drawnAtOnce = 1 << 15

// initialiseSlices makes the weights of a parameter that parts divide, the j-th of a chunk's, and fills
// them with the values that an undivided one has.
func (d *device) initialiseSlices(p *nn.Param, draw *philox.Stream, param, chunk, j int) {
	n := d.net
	st := n.Largest(n.Pieces.On(d.k)[chunk])
	var own []weight
	for i, runs := range program.SlicesOf(p.Split, p.Shape, n.Tensor, n.Blocks) {
		mem, o := d.memory(i), partOf(st, i).Params[j]
		w := weight{param: param, chunk: chunk, part: i, runs: runs, w: mem.slot(chunk, program.Params, 0)[o.Off:o.End():o.End()]}
		mem.touch(chunk, program.Params, 0, o.End())
		d.index[param] = append(d.index[param], len(d.weights))
		d.weights = append(d.weights, w)
		own = append(own, w)
	}
	buffer := make([]float32, min(drawnAtOnce, p.Shape.Elems()))
	for at := 0; at < p.Shape.Elems(); at += len(buffer) {
		buffer = buffer[:min(len(buffer), p.Shape.Elems()-at)]
		p.Init(draw, p.Shape, buffer)
		for _, w := range own {
			slice{w.w, w.runs}.scatter(buffer, at)
		}
	}
}

// slice has some elements of a tensor: its runs, or, without runs, as many as it has.
type slice struct {
	values []float32
	runs   []program.Run
}

// scatter sets it to elements of the tensor from first on, where it has them.
func (s slice) scatter(whole []float32, first int) {
	program.Within(s.runs, first, len(whole), func(at, in, floats int) { copy(s.values[in:in+floats], whole[at:at+floats]) })
}

// gather sets the tensor to it, where it has elements.
func (s slice) gather(whole []float32) {
	program.Within(s.runs, 0, len(whole), func(at, in, floats int) { copy(whole[at:at+floats], s.values[in:in+floats]) })
}

// set sets it to the tensor.
func (s slice) set(whole []float32) {
	if s.runs != nil {
		s.scatter(whole, 0)
		return
	}
	copy(s.values, whole)
}

// whole returns a tensor of a parameter of the network: the device's own memory, or a copy where its parts
// divide it.
func (d *device) whole(param int, of func(*weight) []float32) []float32 {
	first := &d.weights[d.index[param][0]]
	if first.runs == nil {
		return of(first)
	}
	all := make([]float32, d.net.Params[param].Shape.Elems())
	for _, j := range d.index[param] {
		w := &d.weights[j]
		slice{of(w), w.runs}.gather(all)
	}
	return all
}

// hop makes the task that runs on an emulated device as much longer as its parts' links take for what they
// have sent each other at once, the most of which is given in bytes.
func (r *stageRun) hop(most int64) {
	if r.trainer.alone != nil {
		r.turns -= time.Duration(r.trainer.net.Devices[r.k].Link.Seconds(most) * float64(time.Second))
	}
}

// partTraffic counts what the parts of a place send each other.
type partTraffic struct {
	at  place.Place
	all [program.Kinds]Traffic
}

func (t *partTraffic) sent(what program.Kind, _, _ int, bytes int64) {
	of := &t.all[what]
	of.From, of.To, of.What = t.at, t.at, plan.OfKind[what]
	of.Messages, of.Bytes = of.Messages+1, of.Bytes+bytes
}

func (t *partTraffic) add(to *traffic) {
	for _, of := range t.all {
		if of.Messages > 0 {
			to.add(of)
		}
	}
}
