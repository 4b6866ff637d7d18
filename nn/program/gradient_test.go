package program_test

import (
	"testing"

	"gpipebench/internal/testkit"
)

// TestGradients compares the gradients that follow from the ops' rules with
// finite differences.
func TestGradients(t *testing.T) {
	testkit.NotRaced(t)
	for _, c := range opCases {
		if c.exact {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.runner(t, 0, 4, 1).CheckGradients(t, c.loss)
		})
	}
}
