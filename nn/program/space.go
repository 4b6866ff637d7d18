// Package program compiles a traced graph into programs and runs them.
//
// A [Program] is an ordered list of kernel calls whose operands have fixed
// places: a space of the device's memory and an offset in it, found by liveness
// analysis. Floating-point work, bytes moved, saved activations and peak memory
// are properties of the program, known before anything runs.
//
// [Compile] makes the three programs of a pipeline stage from one traced
// forward function: Forward, Keep (a Forward that stores the residuals) and
// Backward; with [Function.Split] also Backward in two, Input and Weights. [CompileEvaluate] makes the one of evaluation. Forward and Keep
// store different values and compute the same bits.
//
// # The split backward
//
// With [Function.Split] the backward function B of a stage is also
// compiled as two programs (Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241,
// section 2): Input (I), for whose results the stage before waits, and Weights (W), which
// may run later. I and then W have the bits of B.
//
// I computes the gradients of all activations, and copies what W reads of In, DOut and
// Statistics, so that these are free when it ends. It does the same on the first stage,
// whose inputs have no gradient: W then takes as long, and needs as much, as elsewhere. W
// computes the products among the gradients of weights, and the sums that read nothing
// more than these products do, such as those for biases. It reads Lasting, Between and
// Params, writes Grads, and comes to no [Meeting]. The other sums (norms' parameters,
// embeddings) stay in I, since keeping what they read would take more memory than I frees:
// this is how the paper counts.
//
// Every micro-batch in flight therefore has, in floats of [Stage.Span],
//
//	Residual + Lasting  from its F (if that keeps) or R on to the end of I: the M_B of the paper
//	Lasting + Between   from then on to the end of W: its M_W
//
// with Between from the start of I. B frees both kinds of residuals.
//
// Accumulators of I and of W are different ones, and for each of the programs micro-batches
// run in ascending order. If there are several groups, no I of a group may run before the
// last W of the group before it.
//
// No kernel of package graph computes gradients of weights and of activations at once, so
// every instruction of B is in exactly one of the two programs. An op of a caller with
// such a kernel is refused.
package program

// Space is a part of a device's memory that programs address. The runtime binds
// each to real memory for a run: for example a different slot of the boundary
// stash for every micro-batch.
type Space uint8

const (
	Params     Space = iota // parameters and constants
	Grads                   // accumulators of the parameters' gradients
	In                      // boundary tensors from the previous stage, and labels
	Out                     // boundary tensors for the next stage, or a loss's rows
	DOut                    // gradients of Out, from the next stage
	DIn                     // gradients of In, for the previous stage
	Residual                // values that Keep stores for Backward, or for Input
	Lasting                 // with Function.Split: values that Keep stores for Weights, which Input reads as well
	Between                 // with Function.Split: values that Input stores for Weights
	Statistics              // batch norm's over replicas, which the first forward function stores for all that follow
	Workspace               // everything that lives only within one run
	Spaces                  // their number
)

func (s Space) String() string {
	return [...]string{"parameters", "gradients", "input", "output", "output-gradient", "input-gradient", "residuals", "lasting residuals", "between input and weights", "statistics", "workspace"}[s]
}

// Operand is the place of a tensor.
type Operand struct {
	Space Space
	Off   int // in floats
	Len   int // in floats
}

// End returns the offset of the first float after the operand.
func (o Operand) End() int { return o.Off + o.Len }

// align is the granularity of offsets in floats: one cache line and one 512-bit
// vector. Sizes are not rounded, so a space ends with its last element.
const align = 16

// AlignUp returns the smallest multiple of the alignment of tensors that is at
// least n.
func AlignUp(n int) int { return (n + align - 1) &^ (align - 1) }

// Layout places tensors one after another and returns their offsets and the
// total span, in floats. A missing tensor (size 0) has offset 0, so that it can
// be sliced from the space like any other.
func Layout(sizes []int) (offsets []int, span int) {
	offsets = make([]int, len(sizes))
	next := 0
	for i, n := range sizes {
		if n > 0 {
			offsets[i] = next
			span = next + n
			next = AlignUp(span)
		}
	}
	return offsets, span
}
