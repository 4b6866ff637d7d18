// Package raced tells tests whether the race detector watches them, with which they take ten
// times as long: what only compares values and sizes is other runs' concern then.
package raced

import "testing"

// Detector reports whether the race detector watches.
func Detector() bool { return detector }

// Skip skips a test of values or of sizes under the race detector: others, which are not
// skipped, run the same tasks beside each other.
func Skip(t *testing.T) {
	t.Helper()
	if detector {
		t.Skip("nothing runs beside anything here that does not in other tests")
	}
}
