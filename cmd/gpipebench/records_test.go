package main

import (
	"strings"
	"testing"
)

// Records prints the samples of an experiment, a line each, from the second directory where the
// first has none.
func TestRecordsCommand(t *testing.T) {
	t.Chdir("../..")
	records := func(args ...string) (int, string, string) {
		var out, said strings.Builder
		status := run(t.Context(), append([]string{"records"}, args...), &out, &said)
		return status, out.String(), said.String()
	}
	if status, out, said := records("learning"); status != 0 || !strings.Contains(out, "synthetic seed 1 {") || !strings.Contains(out, `"losses":[`) {
		t.Errorf("status %d: %s\n%.300s", status, said, out)
	}
	for _, args := range [][]string{{}, {"nothing"}, {"learning", "table1"}} {
		if status, out, said := records(args...); status != 2 || out != "" || !strings.Contains(said, "want one experiment of table1, ") {
			t.Errorf("%q: status %d: %s", args, status, said)
		}
	}
}
