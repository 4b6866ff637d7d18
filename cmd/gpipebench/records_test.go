package main

import (
	"errors"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
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
	dir := t.TempDir() // a name is text from a file
	log := testkit.Must(records.Open(records.File(dir, "learning"), records.Key{Experiment: "learning"}, false))(t)
	testkit.NoError(t, errors.Join(log.Add("a\n\x1b[31mb", 1, 7), log.Close()))
	out, _ = succeeds(t, "records", "learning", "--results", dir)
	testkit.Equal(t, out, "a; \\x1b[31mb seed 1 7\n")
}
