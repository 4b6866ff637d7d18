// Package testkit says which tests run in which tier: make test is go test -short, make ci
// runs what is left out there, and make deep what takes minutes. CONTRIBUTING.md has the list.
// Its other functions check values, errors, panics and texts, each in a line: Must, Equal, Fails
// and the like.
package testkit

import (
	"fmt"
	"os"
	"testing"
)

// Race reports whether the race detector watches, with which tests take ten times as long.
const Race = detector

// Deep skips a test outside of make deep, which sets GPIPEBENCH_DEEP.
func Deep(t testing.TB) {
	t.Helper()
	if !IsDeep() {
		t.Skip("a part of make deep")
	}
}

// IsDeep reports whether this is make deep, for tests that have a shorter form elsewhere.
func IsDeep() bool { return os.Getenv("GPIPEBENCH_DEEP") != "" }

// InShard reports whether the i-th part of a long test is one of this run's: with
// GPIPEBENCH_SHARD=2/5 every fifth is, from the second. Without it all are.
func InShard(i int) bool {
	shard, of := 1, 1
	if text := os.Getenv("GPIPEBENCH_SHARD"); text != "" {
		if n, err := fmt.Sscanf(text, "%d/%d", &shard, &of); n != 2 || err != nil || shard < 1 || shard > of {
			panic("GPIPEBENCH_SHARD=" + text + ": want such as 2/5")
		}
	}
	return i%of == shard-1
}

// CI skips a test in make test, which runs go test -short.
func CI(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("a part of make ci")
	}
}

// NotRaced skips a test of values or sizes under the race detector: other tests, which are not
// skipped, run the same tasks beside each other.
func NotRaced(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("compares values; other tests run the same tasks under the race detector")
	}
}
