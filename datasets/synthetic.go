package datasets

import (
	"fmt"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn"
	"gpipebench/nn/philox"
)

// Synthetic is an endless stream of sequences in a random language whose best
// possible loss, the floor, is known exactly.
//
// A symbol has a few successors, and the class of the token before the current
// one determines which are likely (see language). So a training curve passes
// three levels, all exact: ln Vocab before anything is learnt, ln Successors
// once the current token is used, and the floor once attention finds the right
// token further back. No smaller part of the context gives a loss between these
// levels.
//
// Sequence i of a split is a pure function of (seed, split, i); batch `index`
// of n examples has the sequences index*n to index*n+n-1. A longer SeqLen or a
// MinLen changes where sequences end, not how they begin.
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

// Batches returns 0 for the training split, which has no end.
func (s *Synthetic) Batches(split Split, examples int) int {
	if split == Train {
		return 0
	}
	return ceilDiv(s.heldOut, examples)
}

// Batch returns the sequences from index*examples on of a split.
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

// length returns the number of targets of sequence i.
func (s *Synthetic) length(split Split, i int) int {
	return s.minLen + philox.NewStream(s.sizes[split], uint64(i)).Intn(s.seqLen-s.minLen+1)
}

// Yardsticks returns the three levels of the loss; the floor is taken over the
// lengths of the held-out sequences.
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
		NewYardstick("uniform", exactmath.Log(float64(s.lang.vocab))),
		NewYardstick("current token only", exactmath.Log(float64(s.lang.succ))),
		entropy,
	}, nil
}
