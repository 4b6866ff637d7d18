package transformer

import (
	"fmt"

	"gpipebench/nn"
)

// divides reports the first size that parts do not divide; the last is the tokens, which they
// divide in sequence parallelism alone.
func divides(p nn.Parts, sizes ...field) error {
	if p.Count < 0 {
		return fmt.Errorf("transformer: %d parts of each layer: want 1 or more", p.Count)
	}
	if !p.Sequence {
		sizes = sizes[:len(sizes)-1]
	}
	for _, f := range sizes {
		if p.Count > 1 && f.value%p.Count != 0 {
			return fmt.Errorf("transformer: %d parts do not divide %s %d: want a divisor", p.Count, f.name, f.value)
		}
	}
	return nil
}

// field is one of a configuration's sizes.
type field struct {
	name  string
	value int
}

// positive reports the first size below 1.
func positive(fields ...field) error {
	for _, f := range fields {
		if f.value < 1 {
			return fmt.Errorf("transformer: %s is %d, want at least 1", f.name, f.value)
		}
	}
	return nil
}

// options checks the settings that all models have besides their sizes.
func options(activation nn.Activation, dropout, clipLogits float32) error {
	switch {
	case activation > nn.GELU:
		return fmt.Errorf("transformer: Activation is %s, want relu or gelu", activation)
	case !(dropout >= 0 && dropout < 1):
		return fmt.Errorf("transformer: Dropout is %v, want at least 0 and less than 1", dropout)
	case !(clipLogits >= 0):
		return fmt.Errorf("transformer: ClipLogits is %v, want at least 0 (0: not limited)", clipLogits)
	}
	return nil
}
