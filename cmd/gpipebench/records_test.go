package main

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Records prints the samples of an experiment, a line each, from the second directory where the
// first has none.
func TestRecordsCommand(t *testing.T) {
	t.Chdir("../..")
	out, _ := succeeds(t, "records", "learning")
	testkit.Has(t, out, "synthetic seed 1 {", `"losses":[`)
	for _, args := range []string{"", "nothing", "learning table1"} {
		fails(t, 2, "want one experiment of table1, ", append([]string{"records"}, strings.Fields(args)...)...)
	}
}
