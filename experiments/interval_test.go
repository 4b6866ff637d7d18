package experiments

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/records"
)

func TestProvenanceOfProcesses(t *testing.T) {
	log := records.New(records.Key{Experiment: "e", Profile: "smoke"})
	for i, p := range []records.Provenance{{Time: "2026-01-02", Commit: "b"}, {Time: "2026-01-03", Commit: "c"}, {Time: "2026-01-01", Commit: "b"}} {
		id := fmt.Sprint(i)
		log.Put(&records.Record{Session: id, Provenance: &p})
		log.Put(&records.Record{Session: id, Sample: "sample " + id, Data: []byte("1")})
	}
	if got := lab.ProvenanceNote(log); !strings.HasPrefix(got, "Measured 2026-01-01 to 2026-01-03 by 3 processes, commit b, c, profile smoke") {
		t.Error(got)
	}
	if !slices.IsSortedFunc(log.Measuring(), func(a, b records.Provenance) int { return strings.Compare(a.Time, b.Time) }) {
		t.Error("not in the order of time")
	}
}
