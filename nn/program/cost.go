package program

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"gpipebench/nn/graph"
)

// idle reports whether the instruction leaves everything in its place: a value
// gets another shape where it is.
func (in *Instr) idle() bool { return in.traits.reshapes && in.in[0] == in.out[0] }

// Move is an operand that an instruction reads or writes.
type Move struct {
	Operand
	Elems      int64 // number moved: for a table that is looked up, only the elements of the rows read
	Width      int   // the last dimension
	ElemBytes  int64 // as stored
	Activation bool  // whether it is neither a parameter, an accumulator, an id nor a statistic
	Written    bool  // false: read
}

// Work is what the instruction computes and moves: 2 x multiply-adds of matrix products, and
// the bytes of its operands, each read or written once. Of a divided stage's first part it is
// the work of all parts, and of an exchange what is copied.
func (in *Instr) Work() (flops, bytes int64) {
	if in.Division == Exchange {
		return 0, 2 * in.copied
	}
	flops = in.FLOPs
	for m := range in.Moves() {
		bytes += m.Elems * m.ElemBytes
	}
	for _, other := range in.beside {
		f, b := other.Work()
		flops, bytes = flops+f, bytes+b
	}
	return flops, bytes
}

// Moves lists the instruction's operands: first those that it reads, then those
// that it writes. An accumulator is both. A reshape in place moves nothing. A scan reads
// its parameters in every step.
func (in *Instr) Moves() iter.Seq[Move] {
	return func(yield func(Move) bool) {
		if in.idle() || in.traits.collective != nil {
			return
		}
		s := in.step
		steps := int64(max(in.traits.scan, 1))
		for i, n := range s.in {
			m := in.store.move(n, in.in[i], false)
			if inParams(n) {
				m.Elems *= steps
			}
			if in.traits.gathers && i != 1 { // only the rows or columns of the output
				m.Elems = min(m.Elems, int64(s.out[0].Elems()))
			}
			if !yield(m) {
				return
			}
		}
		for i, n := range s.out {
			m := in.store.move(n, in.out[i], true)
			if in.traits.scatters {
				m.Elems = min(m.Elems, int64(s.in[0].Elems()))
			}
			if m.Space == Grads {
				m.Activation, m.ElemBytes = false, cmp.Or(in.store.Gradients, 4)
				m.Elems *= steps
				again := m
				again.Written = false
				if !yield(again) {
					return
				}
			}
			if !yield(m) {
				return
			}
		}
	}
}

// PaddedFLOPs is FLOPs with the widths of products padded to a multiple of
// lanes, as a matrix unit computes: both widths of a weight, in all three
// products in which it occurs; the input and output channels of a convolution,
// the channels of a depthwise one, which is one product of vectors for each tap;
// for attention the width of a head, or of keys and values, and the number of keys; for a scan the gates, and the
// input and the state beside each other.
func (in *Instr) PaddedFLOPs(lanes int) int64 {
	return in.padded(lanes, in.traits.product.widths...)
}

// Product says which kind of matrix product an instruction is, and how large the
// smallest of its three dimensions is: rows, columns, and terms of each sum. The kinds
// are dense (of a scan: the product of one step, whose rows are the examples), attention (its
// smallest is a head's size, the queries or the keys; also a product of two activations), and
// conv-1x1, conv-3x3 (with strides of 1) and conv (any other window), whose gradients end
// in -input-grad and -weight-grad; a convolution has a row for each pixel of its output,
// and a term for each channel of each pixel of its window. A depthwise convolution is a
// kind of its own, depthwise, with the same gradients: its size is the channels, which
// are computed beside each other. Any other kind is "".
func (in *Instr) Product() (kind string, least int) {
	return in.traits.product.kind, in.traits.product.least
}

// Dims returns the sizes of the matrix product that the instruction is, of attention those of its
// scores; zero: neither is known of it, as of a convolution.
func (in *Instr) Dims() Dims { return in.traits.product.dims }

// VectorFLOPs is FLOPs with the last dimension of the output padded to a
// multiple of lanes, as this package's kernels compute: neighbours of a row are
// in one vector.
func (in *Instr) VectorFLOPs(lanes int) int64 {
	out := in.step.call.Out[0].Shape
	return in.padded(lanes, out[len(out)-1])
}

func (in *Instr) padded(lanes int, widths ...int) int64 {
	flops := in.FLOPs
	if lanes <= 1 || flops == 0 {
		return flops
	}
	for _, w := range widths {
		flops = flops / int64(w) * int64((w+lanes-1)/lanes*lanes)
	}
	return flops
}

// Shape names the operation and the shapes of its operands: instructions of the
// same name do the same work.
func (in *Instr) Shape() string {
	var b strings.Builder
	b.WriteString(in.Op)
	if own := attributes.ReplaceAllString(fmt.Sprint(in.step.call.Op), ""); own != "" {
		fmt.Fprintf(&b, " (%s)", own)
	}
	for _, n := range in.step.in {
		b.WriteString(" " + dims(n.Shape))
	}
	b.WriteString(" ->")
	for _, n := range in.step.out {
		b.WriteString(" " + dims(n.Shape))
	}
	return b.String()
}

// attributes are the braces that Go prints around an operation's fields.
var attributes = regexp.MustCompile(`[{}]|^ +| +$`)

func dims(shape graph.Shape) string {
	if len(shape) == 0 {
		return "1"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(shape)), " ", "x"), "[]")
}

// Elementwise reports whether a compiler could compute the instruction element
// by element while its input is computed: additions, products, activations,
// dropout, the normalisation of batch norm given its statistics, and moves of
// data. A fused instruction counts as its first operation.
func (in *Instr) Elementwise() bool { return in.traits.elementwise }

// Ends reports whether a value in the workspace is dead after the instruction:
// freed, or overwritten in place.
func (in *Instr) Ends(o Operand) bool {
	freed := func(f Operand) bool { return f.Off == o.Off }
	return o.Space == Workspace && (slices.ContainsFunc(in.frees, freed) || slices.Contains(in.out, o))
}
