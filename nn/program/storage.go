package program

import (
	"slices"

	"gpipebench/nn/graph"
)

// Storage describes how values are stored in a device's memory. The zero value
// and BF16 are for the devices that compute here, with packing buffers beside the
// tensors. With any other value, programs can be planned and costed but not run.
type Storage struct {
	// DType is the type of activations and their gradients. Parameters,
	// accumulators and statistics are always float32, and ids int32.
	DType graph.DType
	// Rounded is for programs that run with activations of another type than
	// float32: the result of every op is rounded, so none is fused with another.
	Rounded bool
	// NoPacking leaves out the packing buffers of this machine's kernels.
	NoPacking bool
	// KeepScores makes attention store its probabilities for the backward, as
	// was the custom; our kernel stores their log-sum-exp and computes them
	// again.
	KeepScores bool
	// DropScores makes what KeepScores stores what a dropout of the probabilities keeps as well:
	// with two bytes an element a mask of one and their product of two.
	DropScores bool
	// Weights and Gradients are the bytes of an element of parameters and of accumulators as they
	// move; 0: 4. Their places in memory have four bytes an element in any case.
	Weights, Gradients int64
}

// BF16 stores activations as bfloat16 where programs run.
var BF16 = Storage{DType: graph.BF16, Rounded: true}

// Of returns the storage of devices that compute with activations of a dtype.
func Of(dt graph.DType) Storage {
	if dt == graph.BF16 {
		return BF16
	}
	return Storage{}
}

// storage is a Storage with a cache of what it has inferred.
type storage struct {
	Storage
	wide map[*graph.Call][]bool // outputs that are float32 whatever the dtype of activations
}

func newStorage(s Storage) *storage {
	return &storage{s, map[*graph.Call][]bool{}}
}

// elems returns the number of elements stored for a value.
func (s *storage) elems(n *graph.Node) int {
	if keys, ok := s.scores(n); ok {
		if s.DropScores {
			return n.Elems() * keys * 5 / 2
		}
		return n.Elems() * keys
	}
	return n.Elems()
}

// floats returns the space that a value takes, in units of four bytes.
func (s *storage) floats(n *graph.Node) int {
	elems := s.elems(n)
	if s.DType == graph.BF16 && s.activation(n) {
		return (elems + 1) / 2
	}
	return elems
}

// activation reports whether a value has the activations' dtype. The op's
// inference shows which of its outputs are statistics, if nothing else does: those that
// stay float32 when its inputs are bfloat16.
func (s *storage) activation(n *graph.Node) bool {
	if n.DType == graph.I32 || inParams(n) {
		return false
	}
	if _, scores := s.scores(n); scores || n.Role == graph.Input {
		return true
	}
	wide, ok := s.wide[n.Call]
	if !ok {
		wide = s.statistics(n.Call)
		s.wide[n.Call] = wide
	}
	return !wide[n.Index]
}

// statistics says which outputs of a call are float32 whatever the dtype of activations.
func (s *storage) statistics(c *graph.Call) (wide []bool) {
	if own := traitsOf(c).activation; own != nil {
		if is, known := own(s); known {
			return slices.Repeat([]bool{!is}, len(c.Out))
		}
	}
	in := make([]*graph.Node, len(c.In))
	for i, n := range c.In {
		in[i] = n
		if n.DType == graph.F32 {
			narrow := *n
			narrow.DType = graph.BF16
			in[i] = &narrow
		}
	}
	for _, t := range c.Infer(in) {
		wide = append(wide, t.DType != graph.BF16)
	}
	return wide
}

// narrow reports whether a value is stored as bfloat16 by programs that run, unless it
// is an accumulator.
func (s *storage) narrow(n *graph.Node) bool {
	return s.Rounded && s.DType == graph.BF16 && s.activation(n)
}

// dtype returns the type in which a value crosses a stage's edge.
func (s *storage) dtype(n *graph.Node) graph.DType {
	if s.narrow(n) {
		return graph.BF16
	}
	return n.DType
}

// move returns the description of an operand.
func (s *storage) move(n *graph.Node, o Operand, written bool) Move {
	m := Move{Operand: o, Elems: int64(s.elems(n)), Width: 1, ElemBytes: 4, Written: written, Activation: s.activation(n)}
	if len(n.Shape) > 0 {
		m.Width = n.Shape.Last()
	}
	if m.Activation && s.DType == graph.BF16 {
		m.ElemBytes = 2
	}
	if s.Weights > 0 && inParams(n) {
		m.ElemBytes = s.Weights
	}
	return m
}
