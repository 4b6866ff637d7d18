package nn

import (
	"errors"
	"fmt"
	"slices"
)

// Tensor is a dense row-major array that is passed to the pipeline from
// outside. Exactly one of F32 and I32 is set.
type Tensor struct {
	Shape []int // every dimension at least 1; the first counts the examples
	F32   []float32
	I32   []int32 // token ids, class labels; in targets a negative one is masked
}

// Batch is one mini-batch. The first dimension of every tensor counts the
// examples.
type Batch struct {
	Inputs, Targets []Tensor

	// Count is the divisor of the loss: the number of examples, or of unmasked
	// tokens.
	Count int
}

// Examples is the number of examples, 0 for a batch without inputs.
func (b Batch) Examples() int {
	if len(b.Inputs) == 0 || len(b.Inputs[0].Shape) == 0 {
		return 0
	}
	return b.Inputs[0].Shape[0]
}

// Slice returns examples from <= i < to as views, without a copy. Count stays
// the whole batch's: micro-batches of one mini-batch divide their losses by the
// same number, so that the sum over them is the mini-batch's loss.
func (b Batch) Slice(from, to int) Batch {
	if n := b.Examples(); from < 0 || from >= to || to > n {
		panic(fmt.Sprintf("nn: Batch.Slice: examples [%d, %d) of %d", from, to, n))
	}
	return Batch{Inputs: sliceAll(b.Inputs, from, to), Targets: sliceAll(b.Targets, from, to), Count: b.Count}
}

func sliceAll(in []Tensor, from, to int) (out []Tensor) {
	for _, t := range in {
		out = append(out, t.slice(from, to))
	}
	return out
}

func (t Tensor) slice(from, to int) Tensor {
	row := 1 // elements of one example
	for _, d := range t.Shape[1:] {
		row *= d
	}
	s := Tensor{Shape: slices.Clone(t.Shape)}
	s.Shape[0] = to - from
	// The capacity ends with the view: an append to it cannot reach the next example.
	if t.F32 != nil {
		s.F32 = t.F32[from*row : to*row : to*row]
	}
	if t.I32 != nil {
		s.I32 = t.I32[from*row : to*row : to*row]
	}
	return s
}

// Pad returns b with examples of zeros behind its own, so that there are as many as
// given, at least its own. Their targets are masked, so they have neither losses nor
// ranks, and Count stays: what an evaluation computes keeps its bits. An evaluation whose
// examples are not a multiple of the devices' is padded so in Kumar et al. 2019, section
// 2. Targets are int32; float32 ones cannot be masked, and panic.
func (b Batch) Pad(examples int) Batch {
	own := b.Examples()
	switch {
	case examples == own:
		return b
	case examples < own:
		panic(fmt.Sprintf("nn: Batch.Pad: %d examples to %d", own, examples))
	}
	padded := Batch{Count: b.Count}
	for _, t := range b.Inputs {
		padded.Inputs = append(padded.Inputs, t.pad(examples, 0))
	}
	for _, t := range b.Targets {
		if t.F32 != nil {
			panic("nn: Batch.Pad: float32 targets, which cannot be masked")
		}
		padded.Targets = append(padded.Targets, t.pad(examples, masked))
	}
	return padded
}

// masked is a target that does not count.
const masked = -1

// pad is a copy of t with a number of examples, those after its own of zeros or, if it is
// int32, of id.
func (t Tensor) pad(examples int, id int32) Tensor {
	p := Tensor{Shape: slices.Clone(t.Shape)}
	p.Shape[0] = examples
	row := (len(t.F32) + len(t.I32)) / t.Shape[0]
	if t.F32 != nil {
		p.F32 = make([]float32, examples*row)
		copy(p.F32, t.F32)
		return p
	}
	p.I32 = make([]int32, examples*row)
	for i := copy(p.I32, t.I32); i < len(p.I32); i++ {
		p.I32[i] = id
	}
	return p
}

// Check reports why b is not a mini-batch: no input, a tensor whose data does
// not fill its shape, tensors that disagree on the number of examples, or a
// Count below 1.
func (b Batch) Check() error {
	if len(b.Inputs) == 0 {
		return errors.New("batch has no input tensor")
	}
	for _, side := range []struct {
		name    string
		tensors []Tensor
	}{{"input", b.Inputs}, {"target", b.Targets}} {
		for i, t := range side.tensors {
			if err := t.check(); err != nil {
				return fmt.Errorf("batch: %s %d: %w", side.name, i, err)
			}
			if n := b.Examples(); t.Shape[0] != n {
				return fmt.Errorf("batch: %s %d has %d examples where input 0 has %d", side.name, i, t.Shape[0], n)
			}
		}
	}
	if b.Count < 1 {
		return fmt.Errorf("batch: count %d, want at least 1 (examples, or unmasked tokens)", b.Count)
	}
	return nil
}

func (t Tensor) check() error {
	if len(t.Shape) == 0 {
		return errors.New("no shape, want the examples as first dimension")
	}
	if (t.F32 == nil) == (t.I32 == nil) {
		return errors.New("want exactly one of F32 and I32")
	}
	have := len(t.F32) + len(t.I32)
	n := 1
	for _, d := range t.Shape {
		if d < 1 {
			return fmt.Errorf("shape %v has a dimension below 1", t.Shape)
		}
		// Since n <= have, the product does not overflow.
		if n > have/d {
			return fmt.Errorf("shape %v does not fit %d elements", t.Shape, have)
		}
		n *= d
	}
	if n != have {
		return fmt.Errorf("shape %v holds %d elements, there are %d", t.Shape, n, have)
	}
	return nil
}
