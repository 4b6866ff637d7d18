package timed

import (
	"testing"

	"gpipebench/internal/testkit"
)

// An M that a spec does not list has the steps of the next smaller one.
func TestStepsByM(t *testing.T) {
	s := StepsByM{4: 3, 32: 1}
	for m, want := range map[int]int{1: 3, 4: 3, 8: 3, 32: 1, 64: 1} {
		testkit.Equal(t, s.At(m), want, "M = %d: steps", m)
	}
}
