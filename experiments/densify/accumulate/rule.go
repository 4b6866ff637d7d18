// Package accumulate has the rules by which a framework accumulates the gradients of one
// parameter, the bytes and the time that follow from them over several ranks, and the
// limits that stop a gather (Cavdar et al. 2019, "Densifying Assumed-sparse Tensors").
// It is pure: no goroutine, clock or file.
package accumulate

import "slices"

// Kind is the form of a gradient.
type Kind uint8

const (
	Dense  Kind = iota // a tensor of the parameter's shape
	Sparse             // some of its rows, with their indices: TensorFlow's IndexedSlices
)

func (k Kind) String() string { return [...]string{"dense", "sparse"}[k] }

// Way is what happens to gradients.
type Way uint8

const (
	PassThrough Way = iota // nothing: there is at most one
	Reduce                 // they are added up, element by element
	Gather                 // they are concatenated; rows of one index stand side by side
)

func (w Way) String() string { return [...]string{"pass-through", "reduce", "gather"}[w] }

// Outcome is what a rule makes of the gradients of one parameter.
type Outcome struct {
	Way Way
	// Out is the result's form; of no gradients there is none.
	Out []Kind
	// Converted is how many gradients are turned into the other form first: dense ones
	// into all rows of the table, or sparse ones into tensors.
	Converted int
}

// TensorFlow is the paper's Algorithm 1: gradients are gathered unless all are dense.
func TensorFlow(in []Kind) Outcome {
	sparse := count(in, Sparse)
	switch {
	case len(in) < 2:
		return Outcome{PassThrough, slices.Clone(in), 0}
	case sparse == 0:
		return Outcome{Reduce, []Kind{Dense}, 0}
	}
	return Outcome{Gather, []Kind{Sparse}, len(in) - sparse}
}

// Proposed is the paper's Algorithm 2: gradients are gathered only if none is dense.
func Proposed(in []Kind) Outcome {
	sparse := count(in, Sparse)
	if len(in) < 2 || sparse == 0 || sparse == len(in) {
		return TensorFlow(in)
	}
	return Outcome{Reduce, []Kind{Dense}, sparse}
}

// Exchange is how Horovod accumulates a gradient of one form over ranks: an all-reduce,
// or two all-gathers, of rows and of indices. AsDense is its option sparse_as_dense, the
// paper's Listing 1, which turns rows into a tensor first.
func Exchange(k Kind, asDense bool) Way {
	if k == Sparse && !asDense {
		return Gather
	}
	return Reduce
}

func count(in []Kind, k Kind) (n int) {
	for _, one := range in {
		if one == k {
			n++
		}
	}
	return n
}
