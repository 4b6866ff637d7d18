package datasets_test

import (
	"testing"

	"gpipebench/datasets"
	"gpipebench/datasets/sourcetest"
)

// TestContract: every source keeps what package datasets says of them.
func TestContract(t *testing.T) {
	for name, open := range datasets.Sources(t) {
		t.Run(name, func(t *testing.T) { sourcetest.Run(t, open) })
	}
}
