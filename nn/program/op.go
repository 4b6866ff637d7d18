package program

import (
	"fmt"
	"reflect"
	"unsafe"

	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// What this package knows of an op is in one place: its entry, which a call of register adds
// in the file of the op's family. Package op has the ops' attributes, and package graph their shapes
// and gradients; both know nothing of kernels, blocks or parts.

// kernelFunc computes one part of an instruction. Operands are in the order of
// the step's inputs and outputs.
type kernelFunc func(w *worker, in, out [][]float32, part, parts int)

// traits is what is known of a call of an op. It needs kernel or rows; whatever else is
// missing, the call is not, or does not do.
type traits struct {
	call *graph.Call
	// kernel returns the kernel and the scratch that a thread needs, in floats. It adds to
	// its outputs if accumulates is true, and starts from zero otherwise.
	kernel func(s *step, accumulates bool, threads int) (kernelFunc, int)
	// rows describes the call by rows, for kernels with and without conversions.
	rows *byRow
	// blocks is kernel with the conversions of k, by blocks (bf16.go), where adds says that
	// the outputs are accumulators. Without it, or if it returns nil, the call is converted
	// by rows, or else with whole operands.
	blocks func(k *conversion, adds bool, threads int) (kernelFunc, int)
	// fuse lets the call's step take over the calls after it (fuse.go).
	fuse fusion
	// rule says how parts of images divide it (spatial.go), and area the region of a weight
	// gradient that one share computes, the same for every part (turns.go).
	rule rule
	area func(share, shares int) area
	// activation says whether the results have the dtype of activations (storage.go), where
	// the op's inference does not know.
	activation func(s *storage) (is, known bool)

	product product // the matrix product that it is
	scan    int     // the steps in which a scan reads its parameters and adds to its accumulators
	// elementwise: see Instr.Elementwise. columns: a column of a result, which is along the last axis as
	// channels are, depends on that column of its inputs alone.
	elementwise, columns bool
	// starts: where it adds to accumulators, its kernel starts from zero if they are fresh.
	starts bool
	// reshapes: it leaves everything in its place, where that is the result's, too.
	reshapes bool
	// gathers: of its inputs, but for the second, it reads as much as it writes. scatters: of
	// its result it writes as much as it reads.
	gathers, scatters bool
	// collective is what parts of a stage do together (parts.go): it moves nothing in memory.
	collective *collective
}

// product says which kind of matrix product an op is, how large the smallest of its
// dimensions is (see Instr.Product), and which widths a matrix unit pads.
type product struct {
	kind   string
	least  int
	widths []int
	dims   Dims
}

// Dims are the sizes of a product: Count products of (M, K) and (K, N). Those of attention are of
// the product of queries and keys, M queries and N keys of K dimensions; Causal: of the scores,
// those of keys after their query are not seen.
type Dims struct {
	Count, M, N, K int
	Causal         bool
}

// ofWeight reports whether one of the operands is a weight, or its gradient.
func (p product) ofWeight() bool { return p.kind != "" && p.kind != "attention" }

var registry = map[reflect.Type]func(any, *graph.Call) traits{}

// register adds the entry of a type of op: the traits of its calls.
func register[O any](of func(o O, c *graph.Call) traits) {
	registry[reflect.TypeFor[O]()] = func(o any, c *graph.Call) traits { return of(o.(O), c) }
}

// traitsOf returns what is known of a call.
func traitsOf(c *graph.Call) *traits {
	o := c.Op
	if m, ok := o.(op.Moved); ok {
		o = m.By
	}
	of := registry[reflect.TypeOf(o)]
	if of == nil {
		panic(fmt.Sprintf("program: no kernel for op %s", c.Name()))
	}
	t := of(o, c)
	t.call = c
	return &t
}

// traits returns what is known of the step's call, found once: each of the programs that have the step asks several times.
func (s *step) traits() *traits {
	if s.known == nil || s.known.call != s.call {
		s.known = traitsOf(s.call)
	}
	return s.known
}

// lower returns the kernel of a step and the scratch that a thread needs, in floats.
func lower(s *step, accumulates bool, threads int) (fn kernelFunc, scratch int) {
	t := s.traits()
	if t.kernel == nil {
		return t.rows.lower(nil, s, accumulates)
	}
	return t.kernel(s, accumulates, threads)
}

// plain is the kernel of an op that needs no scratch.
func plain(fn kernelFunc) func(*step, bool, int) (kernelFunc, int) {
	return func(*step, bool, int) (kernelFunc, int) { return fn, 0 }
}

func matrix(n *graph.Node) (rows, cols int) { return n.Shape.Rows(), n.Shape.Last() }

// ints views as int32 a tensor of int32, which is in the arena like any other.
func ints(x []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// shareColumns divides sums over columns.
func shareColumns(columns, part, parts int) (from, to int) {
	return share(columns, part, parts, align)
}

// fromZero adapts a kernel that adds to its outputs to outputs that are not
// accumulators. The case is rare, and is not split over threads.
func fromZero(clear bool, f kernelFunc) kernelFunc {
	if !clear {
		return f
	}
	return func(w *worker, in, out [][]float32, part, parts int) {
		if part > 0 {
			return
		}
		for _, o := range out {
			kernel.Zero(o)
		}
		f(w, in, out, 0, 1)
	}
}
