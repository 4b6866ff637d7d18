package datasets

import (
	"fmt"
	"math"

	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// Synthetic is an endless stream of sequences in a random language of which the
// best possible loss is known exactly: the floor.
//
// A symbol has a few successors, and the class of the token Lag places before
// says which are likely (see language). So there are three levels that a
// training curve passes, all exact: ln Vocab before anything is learnt, ln
// Successors once the current token is used, and the floor once attention finds
// the right token further back. Nothing in between is to be had from fewer
// tokens.
//
// Sequence i of a split is a pure function of (seed, split, i); batch `index` of
// n examples is sequences index*n to index*n+n-1. A longer SeqLen or a MinLen
// changes where sequences end, not how they begin.
type Synthetic struct {
	lang          *language
	seqLen        int
	minLen        int
	heldOut       int
	tokens, sizes [2]philox.Key // by split
}

// NewSynthetic returns the synthetic source of a configuration.
func NewSynthetic(c Config) (*Synthetic, error) {
	if err := c.validateSynthetic(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	s := &Synthetic{
		lang:    newLanguage(c.Synthetic, c.Seed),
		seqLen:  c.SeqLen,
		minLen:  c.Synthetic.MinLen,
		heldOut: c.Synthetic.HeldOut,
	}
	for _, split := range []Split{Train, HeldOut} {
		s.tokens[split] = philox.KeyOf(c.Seed, fmt.Sprintf("datasets/synthetic/%v/tokens", split))
		s.sizes[split] = philox.KeyOf(c.Seed, fmt.Sprintf("datasets/synthetic/%v/lengths", split))
	}
	return s, nil
}

func (s *Synthetic) Name() string { return "synthetic" }
func (s *Synthetic) Vocab() int   { return s.lang.vocab }

// Batches is 0 for the training split, which has no end.
func (s *Synthetic) Batches(split Split, examples int) int {
	if split == Train {
		return 0
	}
	return ceilDiv(s.heldOut, examples)
}

// Batch returns sequences index*examples and following of a split.
func (s *Synthetic) Batch(split Split, index, examples int) (nn.Batch, error) {
	if err := checkBatch(split, index, examples, s.seqLen); err != nil {
		return nn.Batch{}, fmt.Errorf("%s: %w", s.Name(), err)
	}
	first, n := index*examples, examples
	if split == HeldOut {
		if first >= s.heldOut {
			return nn.Batch{}, fmt.Errorf("%s: held-out batch %d of %d", s.Name(), index, s.Batches(split, examples))
		}
		n = min(n, s.heldOut-first)
	}
	b := newLMBatch(n, s.seqLen)
	tokens := make([]int32, s.seqLen+1)
	for i := range n {
		sequence := tokens[:s.length(split, first+i)+1]
		s.lang.generate(philox.NewStream(s.tokens[split], uint64(first+i)), sequence)
		fill(b, i, sequence)
	}
	return b.batch(), nil
}

// length is the number of targets of sequence i.
func (s *Synthetic) length(split Split, i int) int {
	return s.minLen + philox.NewStream(s.sizes[split], uint64(i)).Intn(s.seqLen-s.minLen+1)
}

// Floor is the mean loss per target that the ideal model expects on sequences of
// n targets: (min(n, Lag-1) ln Successors + max(0, n-Lag+1) H(p)) / n.
func (s *Synthetic) Floor(n int) float64 { return s.lang.floor(n) / float64(n) }

// FloorOf is the floor of a batch of this source, given the lengths of its
// sequences. It is divided by the batch's Count, so the floors of the slices of
// a mini-batch add up to the mini-batch's, as losses do.
func (s *Synthetic) FloorOf(b nn.Batch) float64 {
	sum := 0.0
	for i := range b.Examples() {
		sum += s.lang.floor(len(s.sequence(b, i)) - 1)
	}
	return sum / float64(b.Count)
}

// Ideal is the loss of the ideal model on the very tokens of a batch of this
// source, divided by its Count. It varies around FloorOf from batch to batch;
// the difference of a network's loss and Ideal has far less noise than that of
// its loss and the floor. A batch which the source cannot have made has +Inf.
func (s *Synthetic) Ideal(b nn.Batch) float64 {
	sum := 0.0
	for i := range b.Examples() {
		sequence := s.sequence(b, i)
		for t := 1; t < len(sequence); t++ {
			sum -= math.Log(s.lang.prob(sequence[:t], sequence[t]))
		}
	}
	return sum / float64(b.Count)
}

// sequence is example i as it was generated, without the padding.
func (s *Synthetic) sequence(b nn.Batch, i int) []int32 {
	row := b.Slice(i, i+1)
	in, out := row.Inputs[0].I32, row.Targets[0].I32
	sequence := append(make([]int32, 0, len(in)+1), in[0])
	for _, next := range out {
		if next < 0 {
			break
		}
		sequence = append(sequence, next)
	}
	return sequence
}

// Yardsticks are the three levels of the loss, the floor taken over the
// held-out sequences' lengths.
func (s *Synthetic) Yardsticks() ([]Yardstick, error) {
	sum, targets := 0.0, 0
	for i := range s.heldOut {
		n := s.length(HeldOut, i)
		sum += s.lang.floor(n)
		targets += n
	}
	entropy := NewYardstick("entropy", sum/float64(targets))
	entropy.Floor = true
	return []Yardstick{
		NewYardstick("uniform", math.Log(float64(s.lang.vocab))),
		NewYardstick("current token only", math.Log(float64(s.lang.succ))),
		entropy,
	}, nil
}
