package gpipe

import (
	"fmt"

	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// SpatialEstimate is the modelled time of F and B of one micro-batch whose images are
// divided by their rows over parts, each an accelerator (program.Stage.Spatial), in seconds,
// by cause: Even is what one accelerator takes, divided by their number, and everything
// else is what keeps the parts from that.
type SpatialEstimate struct {
	Even float64
	// Uneven is what the slowest part takes longer for operations that are divided: one more
	// row than others, the halo's rows, and starts of operations, which do not get fewer.
	Uneven float64
	// Small is for operations that run on part 0 since their images have fewer rows than
	// there are parts, Alone for all others on part 0, with their transfers.
	Small, Alone float64
	Halo         float64 // transfers before windows
	// Statistics are batch norm's: pixels of chunks that reach into another part, results of
	// chunks, and what all parts do alike.
	Statistics float64
	Sums       float64 // adding up the parts' gradients of weights, once, by a ring

	// Turns is what would be added to all that if the parts took turns at the gradients of
	// weights instead of adding up partial sums, for the bits of the uncut network (see
	// package program): they follow one another over blocks of the accumulators, which they
	// hand on at each example.
	Turns float64

	// Copied are the bytes that parts get from each other, but for what Sums adds up, which are Summed on each. Records of
	// the seconds lack them.
	Copied, Summed int64 `json:"-"`
}

// Seconds is the sum of all but Turns.
func (e SpatialEstimate) Seconds() float64 {
	return e.Even + e.Uneven + e.Small + e.Alone + e.Halo + e.Statistics + e.Sums
}

// InTurns is the time with the bits of the uncut network.
func (e SpatialEstimate) InTurns() float64 { return e.Seconds() + e.Turns }

// causes are the seconds by cause, Turns the last.
func (e *SpatialEstimate) causes() []*float64 {
	return []*float64{&e.Even, &e.Uneven, &e.Small, &e.Alone, &e.Halo, &e.Statistics, &e.Sums, &e.Turns}
}

// add adds another estimate.
func (e *SpatialEstimate) add(o SpatialEstimate) {
	for i, seconds := range o.causes() {
		*e.causes()[i] += *seconds
	}
	e.Copied += o.Copied
}

// ModelSpatial is for experiments: it models one micro-batch of all examples on parts accelerators, at least 1, of
// the kind of the first device. The parts go on together from operation to operation, since
// nearly each waits for a neighbour's rows. Each pair of parts has a link of its own; a
// transfer takes its latency and the most that any pair sends. Gradients of weights are
// partial sums that are added up (see package program on what that does to bits).
func (p Pipeline) ModelSpatial(in Input, parts int, how Modelling) (e SpatialEstimate, err error) {
	if parts < 1 {
		return e, fmt.Errorf("%d parts of images: want 1 or more", parts)
	}
	n, err := p.onOne(in, how)
	if err != nil {
		return e, err
	}
	a, st := n.Devices[0].Accelerator, n.ProgramsFor(in.Examples, plan.Training)[0]
	d := divided{a, how.DType, parts, in.Examples}
	forward, backward := d.kept(st)
	e.add(forward.all())
	e.add(backward.all())
	if parts > 1 { // one part's gradients are whole
		e.Summed = forward.summed + backward.summed
	}
	reduce, gather := reduction.Cost(reduction.Ring, parts, 1, float64(e.Summed), a.Hop())
	e.Sums = reduce + gather
	e.Turns -= e.Sums
	return e, nil
}

// divided is how programs are modelled whose images are divided over parts.
type divided struct {
	*accelerator.Accelerator
	dtype           graph.DType
	parts, examples int
}

// dividedProgram is the estimate of a program.
type dividedProgram struct {
	instrs []SpatialEstimate // of each instruction of the undivided one
	layers []int             // theirs
	issues []float64         // seconds in which the host of a part starts each
	summed int64             // bytes of the sums that the parts have of gradients
}

// all is the estimate of the whole program.
func (p dividedProgram) all() (sum SpatialEstimate) {
	for _, e := range p.instrs {
		sum.add(e)
	}
	return sum
}

// seconds is how long parts take for a program that is run as a task, in turns.
func (d divided) seconds(p dividedProgram) float64 {
	t := accelerator.Timing{Operations: d.Ops["task"].Overhead + p.all().InTurns()}
	for _, issue := range p.issues {
		t.Issue += issue
	}
	return t.Seconds()
}

// forward models a stage's Forward.
func (d divided) forward(st *program.Stage) dividedProgram {
	return d.program(st.SpatialForward(1), st.SpatialForward(d.parts))
}

// kept models Keep and Backward of a stage that trains.
func (d divided) kept(st *program.Stage) (keep, backward dividedProgram) {
	oneKeep, oneBackward := st.Spatial(1)
	k, b := st.Spatial(d.parts)
	return d.program(oneKeep, k), d.program(oneBackward, b)
}

// program models a program, given undivided as well.
func (d divided) program(one, divided *program.Spatial) (p dividedProgram) {
	a, dt, parts := d.Accelerator, d.dtype, d.parts
	whole := make([]float64, len(one.Pieces))
	a.Starts(one.Parts[0], dt, func(first int, seconds float64) { whole[first] += seconds })
	slowest := make([]float64, len(whole))
	p.issues = make([]float64, len(whole))
	for part, of := range divided.Parts {
		a.Starts(of, dt, func(first int, seconds float64) {
			i := divided.Index[part][first]
			slowest[i] = max(slowest[i], seconds)
			if a.Kernels != nil {
				p.issues[i] = a.Kernels.Issue
			}
		})
	}
	link := a.Hop()
	link.ThroughHost = false // each pair of parts has its own
	sent := func(t program.Traffic) float64 {
		if t == nil {
			return 0
		}
		return link.Seconds(t.Most())
	}
	for i, piece := range divided.Pieces {
		e := SpatialEstimate{Copied: piece.Before.Total() + piece.Handed.Total() + piece.After.Total()}
		even := whole[i] / float64(parts)
		e.Even += even
		alone := &e.Alone
		if piece.Small {
			alone = &e.Small
		}
		*alone += sent(piece.Handed)
		switch piece.Division {
		case program.Alone:
			*alone += slowest[i] - even + sent(piece.Before)
		case program.Everywhere:
			e.Statistics += slowest[i] - even
		case program.Chunked:
			e.Uneven += slowest[i] - even
			e.Statistics += sent(piece.Before) + sent(piece.After)
		default:
			e.Uneven += slowest[i] - even
			e.Halo += sent(piece.Before)
		}
		if piece.Division == program.Partial && parts > 1 {
			items := d.examples * parts // blocks of examples; the parts begin one beat after another
			e.Turns += slowest[i]*float64(parts-1)/float64(items) + float64(float64(items+parts-2)*link.Seconds(piece.Sum/int64(parts))) + link.Seconds(piece.Sum)
		}
		p.instrs, p.layers = append(p.instrs, e), append(p.layers, one.Parts[0].Instrs[i].Layer)
		p.summed += piece.Sum
	}
	return p
}
