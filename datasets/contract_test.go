package datasets_test

import (
	"testing"

	"gpipebench/datasets"
	"gpipebench/datasets/sourcetest"
)

// TestContract: every source satisfies the contract of package datasets.
func TestContract(t *testing.T) {
	for name, open := range datasets.Sources(t) {
		t.Run(name, func(t *testing.T) { sourcetest.Run(t, open) })
	}
}
