// Package testkit says which tests run in which tier: make test is go test -short, make ci
// runs what is left out there, and make deep what takes minutes. CONTRIBUTING.md has the list.
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

// InShard reports whether the case with this index belongs to the part of make deep that
// GPIPEBENCH_SHARD names: "2/3" has the cases 1, 4, 7 and so on. Without it all belong.
func InShard(index int) bool {
	shard := os.Getenv("GPIPEBENCH_SHARD")
	if shard == "" {
		return true
	}
	var which, of int
	if _, err := fmt.Sscanf(shard, "%d/%d", &which, &of); err != nil || which < 1 || which > of {
		panic(fmt.Sprintf("GPIPEBENCH_SHARD is %q: want the number of a part and how many there are, such as 1/3", shard))
	}
	return index%of == which-1
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
