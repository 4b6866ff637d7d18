package gpipe

import (
	"cmp"

	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// The roofline. An instruction takes as long as its arithmetic at peak rate,
// with the widths of products padded to the lanes, or as its operands' traffic
// at full bandwidth, whichever is longer, and an overhead. Every operand is read
// or written once, in the dtype that it is stored in.
//
// On an accelerator whose compiler fuses, element-wise instructions join the
// instruction right before them if they read what it makes: they do not read
// that value, nobody writes it if it is dead afterwards, and all together are
// one operation with one overhead. Nothing is fused across an instruction in
// between.
//
// On a tiled one the last dimension of activations moves padded to the lanes.

// seconds is the roofline's time for a program.
func (a *Accelerator) seconds(p *program.Program, dt graph.DType) (sum float64) {
	a.operations(p, dt, func(_ int, seconds float64) { sum += seconds })
	return sum
}

// operations calls each for every operation of a program with the layer that it
// begins in and its time.
func (a *Accelerator) operations(p *program.Program, dt graph.DType, each func(layer int, seconds float64)) {
	var arithmetic, traffic, overhead float64 // of the operation at hand, in seconds
	layer := -1
	end := func() {
		if layer >= 0 {
			each(layer, max(arithmetic, traffic)+overhead)
		}
	}
	var before *program.Instr
	var made []program.Move // by before, and in how many seconds it is written
	for i := range p.Instrs {
		in := &p.Instrs[i]
		rate := a.rates(in.Op, dt)
		var reads, joined float64
		var writes []program.Move
		fused := false
		for m := range in.Moves() {
			seconds := float64(m.Elems*m.ElemBytes) / rate.Bandwidth
			if a.Tiled && m.Activation {
				seconds *= float64(pad(m.Width, a.Lanes)) / float64(m.Width)
			}
			if m.Written {
				reads += seconds
				writes = append(writes, m)
				continue
			}
			if before != nil && a.Fused && in.Elementwise() && wrote(made, m.Operand) {
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
			arithmetic, traffic, overhead, layer = 0, 0, rate.Overhead, in.Layer
		}
		arithmetic += float64(in.PaddedFLOPs(a.Lanes)) / rate.FLOPs
		traffic += reads
		before, made = in, writes
	}
	end()
}

func wrote(made []program.Move, o program.Operand) bool {
	for _, m := range made {
		if m.Operand == o {
			return true
		}
	}
	return false
}

// rates are an operation's, or the accelerator's where it has none of its own.
func (a *Accelerator) rates(op string, dt graph.DType) OpRate {
	own := a.Ops[opName(op)]
	return OpRate{cmp.Or(own.FLOPs, a.rate(dt)), cmp.Or(own.Bandwidth, a.Bandwidth), cmp.Or(own.Overhead, a.Overhead)}
}

func pad(n, lanes int) int {
	if lanes <= 1 {
		return n
	}
	return (n + lanes - 1) / lanes * lanes
}
