package datasets

import (
	"fmt"
	"math"

	"gpipebench/nn"
)

// Split is a part of a data set.
type Split int

const (
	Train   Split = iota
	HeldOut       // never trained on
)

func (s Split) String() string {
	switch s {
	case Train:
		return "training"
	case HeldOut:
		return "held-out"
	}
	return fmt.Sprintf("Split(%d)", int(s))
}

// Source is a data set for training and evaluation.
type Source interface {
	// Name returns the source's specification, see Open, in printable form.
	Name() string

	// Vocab returns the number of values of a target: token ids are 0..Vocab-1.
	Vocab() int

	// Batches returns the number of batches of one pass over a split, if they
	// have the given number of examples (at least 1) and the last may have
	// fewer. 0 means that the split has no end, so that there are no epochs.
	Batches(split Split, examples int) int

	// Batch returns a mini-batch of at most the given number of examples.
	//
	// For the training split every index >= 0 is a batch: pass e, called an
	// epoch, has the indices from e*Batches to (e+1)*Batches-1, and each pass
	// its own order. The held-out split is one pass, always the same: an index
	// beyond it is an error.
	//
	// The order of the examples of a pass does not depend on the number of
	// examples in a batch, unless the source is a Translation.
	Batch(split Split, index, examples int) (nn.Batch, error)

	// Yardsticks returns losses with which to compare a network's held-out
	// loss, the worst first. They may take as long to compute as reading the
	// data takes.
	Yardsticks() ([]Yardstick, error)
}

// Yardstick is the score of a simple or an ideal model on the held-out split.
type Yardstick struct {
	Name  string  `json:"name"`
	Loss  float64 `json:"loss"`  // nats per target
	Bits  float64 `json:"bits"`  // the same in bits
	Floor bool    `json:"floor"` // lower bound on the expected loss of any model

	// Accuracy is the share of targets that the model ranks first, if known
	// (for images); else 0.
	Accuracy float64 `json:"accuracy,omitempty"`
}

// NewYardstick returns the yardstick of a loss, in nats per target.
func NewYardstick(name string, loss float64) Yardstick {
	return Yardstick{Name: name, Loss: loss, Bits: loss / math.Ln2}
}

// checkBatch reports a batch that no source can supply. Index arithmetic relies
// on tensors of less than 2^31 elements.
func checkBatch(split Split, index, examples, elements int) error {
	switch {
	case split != Train && split != HeldOut:
		return fmt.Errorf("split %d, want %d (training) or %d (held-out)", split, Train, HeldOut)
	case index < 0:
		return fmt.Errorf("%v batch %d, want 0 or more", split, index)
	case examples < 1 || examples > math.MaxInt32/elements:
		return fmt.Errorf("batch of %d examples, want 1 to %d", examples, math.MaxInt32/elements)
	case index > math.MaxInt/examples-1:
		return fmt.Errorf("%v batch %d of %d examples is out of range", split, index, examples)
	}
	return nil
}

// ceilDiv returns a/b rounded up, for a >= 0 and b > 0, without overflow.
func ceilDiv(a, b int) int {
	q := a / b
	if a%b != 0 {
		q++
	}
	return q
}

// lmBatch is a language-model batch under construction.
type lmBatch struct {
	inputs, targets []int32 // (n, seqLen)
	n, seqLen       int
	count           int
}

// newLMBatch returns a batch that is all padding.
func newLMBatch(n, seqLen int) *lmBatch {
	b := &lmBatch{inputs: make([]int32, n*seqLen), targets: make([]int32, n*seqLen), n: n, seqLen: seqLen}
	for i := range b.targets {
		b.targets[i] = -1
	}
	return b
}

// row returns the inputs and targets of example i, (seqLen) each.
func (b *lmBatch) row(i int) (inputs, targets []int32) {
	from, to := i*b.seqLen, (i+1)*b.seqLen
	return b.inputs[from:to], b.targets[from:to]
}

func (b *lmBatch) batch() nn.Batch {
	shape := func() []int { return []int{b.n, b.seqLen} }
	return nn.Batch{
		Inputs:  []nn.Tensor{{Shape: shape(), I32: b.inputs}},
		Targets: []nn.Tensor{{Shape: shape(), I32: b.targets}},
		Count:   b.count,
	}
}

// fill sets example i from tokens: all but the last are inputs, all but the
// first targets. There are at most seqLen+1 of them.
func fill[T int32 | byte](b *lmBatch, i int, tokens []T) {
	inputs, targets := b.row(i)
	for t, next := range tokens[1:] {
		inputs[t], targets[t] = int32(tokens[t]), int32(next)
	}
	b.count += len(tokens) - 1
}
