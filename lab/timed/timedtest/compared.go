package timedtest

import (
	"strings"
	"testing"
)

// CheckRecords checks what is said of records, by what must be in it.
func CheckRecords[R interface{ Check() error }](t *testing.T, bad map[string]R) {
	t.Helper()
	for says, r := range bad {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
