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
