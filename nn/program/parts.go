package program

import (
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// The operations at which parts of a stage exchange activations (see op.Parts). They are costed,
// and no kernel runs them.

// Collective is what the devices of a group do together at an instruction.
type Collective uint8

const (
	NoCollective  Collective = iota
	AllReduce                // each gets the sum of all devices' values
	AllGather                // each gets all devices' parts of a value
	ReduceScatter            // each gets its part of that sum
	// ReduceScatterAndGather is ReduceScatter, and an AllGather of another value of the size.
	ReduceScatterAndGather
)

// collective is one of values that have together a number of elements, and of rows
// float32 numbers for each token.
type collective struct {
	what  Collective
	parts int
	of    *graph.Node // the whole value
	rows  int
}

// Collective returns what the parts of a stage do together at the instruction, how many there
// are, and the bytes of the whole value; and the bytes of numbers that they add up besides.
func (in *Instr) Collective() (what Collective, parts int, bytes, besides int64) {
	e := in.traits.collective
	if e == nil {
		return NoCollective, 0, 0, 0
	}
	if e.what != NoCollective {
		bytes = in.store.move(e.of, Operand{}, false).bytes()
	}
	return e.what, e.parts, bytes, int64(4*e.rows) * int64(e.of.Shape.Rows())
}

// IsCollective reports whether the instruction is one at which parts of a stage meet; it moves
// nothing in memory.
func (in *Instr) IsCollective() bool { return in.traits.collective != nil }

// Accumulates reports whether the instruction adds to the accumulator of a gradient.
func (in *Instr) Accumulates() bool { return len(in.out) > 0 && in.out[0].Space == Grads }

func (m Move) bytes() int64 { return m.Elems * m.ElemBytes }

func init() {
	either := func(p op.Parts, whole, sequence Collective) Collective {
		if p.Sequence {
			return sequence
		}
		return whole
	}
	register(func(o op.Enter, c *graph.Call) traits {
		return together(collective{either(o.Parts, NoCollective, AllGather), o.Count, c.Out[0], o.Rows})
	})
	register(func(o op.EnterGrad, c *graph.Call) traits {
		return together(collective{either(o.Parts, AllReduce, ReduceScatterAndGather), o.Count, c.In[0], 0})
	})
	register(func(o op.Leave, c *graph.Call) traits {
		return together(collective{either(o.Parts, AllReduce, ReduceScatter), o.Count, c.In[0], 0})
	})
	register(func(o op.LeaveGrad, c *graph.Call) traits {
		return together(collective{AllGather, o.Count, c.Out[0], 0})
	})
}

func together(e collective) traits {
	return traits{collective: &e, kernel: func(*step, bool, int) (kernelFunc, int) {
		return func(*worker, [][]float32, [][]float32, int, int) {
			panic("program: one of several parts of a stage: want modelled devices")
		}, 0
	}}
}

// ownPart is the part of a residual that a device stores: of tokens that parts have gathered, its own.
func ownPart(n *graph.Node, floats int) int {
	if n.Call == nil {
		return floats
	}
	if o, ok := n.Call.Op.(op.Enter); ok && o.Sequence {
		return (floats + o.Count - 1) / o.Count
	}
	return floats
}
