package accelerator

import (
	"cmp"
	"math"
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// The roofline. An instruction takes as long as its arithmetic at peak rate,
// with the widths of products padded to the lanes, or as its operands' traffic
// at full bandwidth, whichever is longer, plus an overhead. Every operand is read
// or written once, in the dtype that it is stored in.
//
// On an accelerator whose compiler fuses, element-wise instructions join the
// instruction right before them if they read its result. They do not read that
// result from memory; it is not written either if it is dead afterwards; and all of
// them together are one operation with one overhead. Nothing is fused across an
// instruction in between.
//
// Where the accelerator's file has them, efficiencies ([Efficiency]) take the place of
// peaks: a product runs at the share of the peak that products of its kind and size
// reach, and memory moves what it was seen to move.
//
// Kinds of operations with measured rates ([OpRate]) are timed by these instead, and
// operations that were timed themselves ([Accelerator.Shapes]) by that time.
//
// On a tiled accelerator, activations move with their last dimension padded to the
// lanes. One that runs this program's kernels (Packing) computes with vectors: only
// the output width of a product is padded.

// Seconds is the roofline's time in seconds for a program that is run as a task: at least that in
// which the host starts its operations.
func (a *Accelerator) Seconds(p *program.Program, dt graph.DType) float64 {
	t := Timing{Operations: a.Ops["task"].Overhead}
	a.Timings(p, dt, func(_ int, of Timing) { t.Add(of) })
	return t.Seconds()
}

// Starts calls each for every operation of a program, with the index of the instruction at which it
// begins and the device's time in seconds.
func (a *Accelerator) Starts(p *program.Program, dt graph.DType, each func(first int, seconds float64)) {
	var arithmetic, traffic, overhead float64 // of the operation at hand, in seconds
	first := -1
	end := func() {
		if first >= 0 {
			each(first, max(arithmetic, traffic)+overhead)
		}
	}
	var before *program.Instr
	var made []program.Move // what before writes
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if len(a.Shapes) > 0 {
			if seconds, timed := a.Shapes[in.Shape()]; timed {
				end()
				first, before, made = -1, nil, nil
				each(i, seconds)
				continue
			}
		}
		if seconds, together := a.ofParts(in, dt); together {
			end()
			first, before, made = -1, nil, nil
			each(i, seconds)
			continue
		}
		own, measured := a.Ops[opName(in.Op)]
		rate := OpRate{a.Rate(dt) * a.productShare(in, dt), a.bandwidthOf(opName(in.Op)), math.Inf(1), a.Overhead}
		if measured {
			rate = OpRate{cmp.Or(own.FLOPs, math.Inf(1)), cmp.Or(own.Bandwidth, math.Inf(1)), cmp.Or(own.Weights, math.Inf(1)), cmp.Or(own.Overhead, a.Overhead)}
		}
		var reads, joined float64
		var writes []program.Move
		fused := false
		for m := range in.Moves() {
			bytes := a.traffic(m)
			seconds := bytes / rate.Bandwidth
			if isWeight(m) {
				seconds += bytes / rate.Weights
			}
			if m.Written {
				reads += seconds
				writes = append(writes, m)
				continue
			}
			if before != nil && a.Fused && in.Elementwise() && wrote(made, m.Operand) && !a.apart(before) {
				fused = true
				if in.Ends(m.Operand) {
					joined += seconds // what before has been charged for writing
				}
				continue
			}
			reads += seconds
		}
		if fused {
			traffic -= joined
		} else {
			end()
			arithmetic, traffic, overhead, first = 0, 0, rate.Overhead, i
		}
		arithmetic += a.seconds(in, dt, rate.FLOPs)
		if measured {
			arithmetic += reads
		} else {
			traffic += reads
		}
		before, made = in, writes
	}
	end()
}

// seconds is the time of what an instruction computes at a rate in floating-point operations per
// second.
func (a *Accelerator) seconds(in *program.Instr, dt graph.DType, rate float64) float64 {
	d := in.Dims()
	if a.Kernels == nil || d.M == 0 {
		return a.arithmetic(in) / rate
	}
	if kind, _ := in.Product(); kind == "dense" && a.Narrow > 0 {
		rate *= a.Narrow
	}
	return a.Kernels.product(d, a.aligned(in, rate), float64(dt.Bytes()))
}

// apart reports whether a kernel of its own runs an instruction, with which no other is fused.
func (a *Accelerator) apart(in *program.Instr) bool { return a.Kernels != nil && in.Dims().M > 0 }

// ofParts is the time of an instruction that has none of a roofline: what parts of a stage do
// together, and attention as a simulation asks for it.
func (a *Accelerator) ofParts(in *program.Instr, dt graph.DType) (seconds float64, is bool) {
	if in.IsCollective() {
		return a.collective(in), true
	}
	if a.Kernels == nil || a.Attention == OurAttention {
		return 0, false
	}
	switch opName(in.Op) {
	case "attention", "attention-grad":
		return a.attention(in, dt), true
	case "cross-entropy", "cross-entropy-grad":
		return a.loss(in), true
	}
	return 0, false
}

// arithmetic is what an instruction computes on this accelerator, in
// floating-point operations.
func (a *Accelerator) arithmetic(in *program.Instr) float64 {
	if a.Packing {
		return float64(in.VectorFLOPs(a.Lanes))
	}
	return float64(in.PaddedFLOPs(a.Lanes))
}

// traffic is what reading or writing an operand moves, in bytes.
func (a *Accelerator) traffic(m program.Move) float64 {
	bytes := float64(m.Elems * m.ElemBytes)
	if a.Tiled && m.Activation && m.Width > 0 {
		bytes *= float64(pad(m.Width, a.Lanes)) / float64(m.Width)
	}
	return bytes
}

// isWeight reports whether a move is of parameters or accumulators, which stay where
// they are.
func isWeight(m program.Move) bool { return m.Space == program.Params || m.Space == program.Grads }

func wrote(made []program.Move, o program.Operand) bool {
	return slices.ContainsFunc(made, func(m program.Move) bool { return m.Operand == o })
}

// Operations that only move bytes, once a step: clearing the gradients, and
// updating the weights.
const (
	Clear  = "clear"
	Update = "update"
)

// Moving is the time of Clear or Update in seconds, for the bytes that it moves.
func (a *Accelerator) Moving(op string, bytes float64) float64 {
	if own, ok := a.Ops[op]; ok {
		return bytes/cmp.Or(own.Bandwidth, math.Inf(1)) + cmp.Or(own.Overhead, a.Overhead)
	}
	return bytes/a.bandwidth() + a.Overhead
}

func pad(n, lanes int) int {
	if lanes <= 1 {
		return n
	}
	return (n + lanes - 1) / lanes * lanes
}
