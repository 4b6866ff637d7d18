package timedtest

import (
	"testing"

	"gpipebench/internal/testkit"
)

// CheckRecords checks what is said of records, by what must be in it.
func CheckRecords[R interface{ Check() error }](t *testing.T, bad map[string]R) {
	t.Helper()
	for says, r := range bad {
		testkit.Fails(t, r.Check(), says)
	}
}
