package datasets

import "fmt"

// Config says how a source is read. The zero value is usable.
type Config struct {
	// SeqLen is the length T of a sequence in tokens, up to 2^20. Zero means 64.
	SeqLen int

	// Seed decides what is random: the order of a text, the synthetic language
	// and its sequences.
	Seed uint64

	// Synthetic describes the synthetic language; other sources ignore it.
	Synthetic SyntheticConfig
}

// SyntheticConfig describes the language of a Synthetic source.
type SyntheticConfig struct {
	// Vocab is the number of symbols, a multiple of Successors up to 65536.
	// Zero means 64.
	Vocab int

	// Successors is how many different symbols may follow a given one, and also
	// the number of classes that symbols fall into; 2 to 256. Zero means 4.
	Successors int

	// Lag is how many tokens before the next one the token stands whose class
	// favours a successor; 2 to SeqLen. At 2 it is the one before the current
	// token. What is farther back is harder to learn. Zero means 2.
	Lag int

	// Skew is the exponent of Zipf's law that successors follow: the r-th
	// favourite has a probability in proportion to r^-Skew; above 0, up to 16.
	// Zero means 1.5.
	Skew float64

	// HeldOut is the number of held-out sequences, up to 2^20. Zero means 128.
	HeldOut int

	// MinLen makes sequences ragged: the number of targets of each is uniform
	// in [MinLen, SeqLen] and the rest of it is padding; 1 to SeqLen. Zero means
	// SeqLen, no padding. A ragged sequence begins like the same one unpadded.
	MinLen int
}

const (
	maxSeqLen     = 1 << 20
	maxVocab      = 1 << 16
	maxSuccessors = 256
	maxSkew       = 16
	maxHeldOut    = 1 << 20
)

// Validate reports the first field that is out of range and what it accepts.
func (c Config) Validate() error {
	if err := c.validateSeqLen(); err != nil {
		return err
	}
	return c.Synthetic.validate(c.withDefaults())
}

// validateSeqLen is all that matters to a source that is not synthetic.
func (c Config) validateSeqLen() error {
	if c.SeqLen < 0 || c.SeqLen > maxSeqLen {
		return fmt.Errorf("sequence length %d, want 1 to %d", c.SeqLen, maxSeqLen)
	}
	return nil
}

// validate checks the fields as they were given; full is them with defaults.
func (s SyntheticConfig) validate(full Config) error {
	f := full.Synthetic
	switch {
	case f.Successors < 2 || f.Successors > maxSuccessors:
		return fmt.Errorf("synthetic: %d successors, want 2 to %d", s.Successors, maxSuccessors)
	case f.Vocab < f.Successors || f.Vocab > maxVocab || f.Vocab%f.Successors != 0:
		return fmt.Errorf("synthetic: vocabulary %d, want a multiple of the %d successors up to %d", f.Vocab, f.Successors, maxVocab)
	case f.Lag < 2:
		return fmt.Errorf("synthetic: lag %d, want 2 or more", s.Lag)
	case f.Lag > full.SeqLen:
		return fmt.Errorf("synthetic: lag %d, want at most the sequence length %d", f.Lag, full.SeqLen)
	case !(f.Skew > 0 && f.Skew <= maxSkew): // also refuses NaN
		return fmt.Errorf("synthetic: skew %v, want above 0 and up to %d", s.Skew, maxSkew)
	case f.HeldOut < 1 || f.HeldOut > maxHeldOut:
		return fmt.Errorf("synthetic: %d held-out sequences, want 1 to %d", s.HeldOut, maxHeldOut)
	case f.MinLen < 1 || f.MinLen > full.SeqLen:
		return fmt.Errorf("synthetic: shortest sequence %d, want 1 to the sequence length %d", s.MinLen, full.SeqLen)
	}
	return nil
}

// withDefaults puts the documented defaults where zeros are.
func (c Config) withDefaults() Config {
	c.SeqLen = orDefault(c.SeqLen, 64)
	s := &c.Synthetic
	s.Vocab = orDefault(s.Vocab, 64)
	s.Successors = orDefault(s.Successors, 4)
	s.Lag = orDefault(s.Lag, 2)
	s.Skew = orDefault(s.Skew, 1.5)
	s.HeldOut = orDefault(s.HeldOut, 128)
	s.MinLen = orDefault(s.MinLen, c.SeqLen)
	return c
}

func orDefault[T int | float64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}
