package experiments

import (
	"fmt"
	"strings"
	"testing"

	"gpipebench/experiments/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

func TestSeedsNote(t *testing.T) {
	log := records.New(records.Key{Experiment: "e"})
	testkit.Has(t, lab.SeedsNote(log), "none")
	for i, seed := range []uint64{12, 3, 0, 12} {
		testkit.NoError(t, log.Add(fmt.Sprint(i), seed, i))
	}
	testkit.Equal(t, lab.SeedsNote(log), "Seeds: 3, 12.")
	// 0 is none, so that no spec may have it.
	for _, c := range []struct {
		of              lab.Definition
		old, seed, want string
	}{
		{gpipe.Paper.Experiment("table2"), "\nseed: 1\n", "\nseed: 0\n", "x.yaml:7:7: seed: \"0\": want a whole number of 1 or more"},
		{gpipe.Paper.Experiment("delayed-reduction"), "seeds: [1, 2]", "seeds: [1, 0]", "profiles.smoke.seeds."},
		{gpipe.Paper.Experiment("stability"), "seeds: [1, 2]\n", "seeds: [1, 0]\n", "profiles.smoke.seeds."},
	} {
		testkit.Fails(t, labtest.Refused(t, c.of, c.old, c.seed), c.want)
	}
}

// Of several processes the note has the first time, the last, and every commit.
// Samples of another engine count, and reproduce says so.
func TestEngineNote(t *testing.T) {
	for engine, want := range map[string]string{"this": "", "": "not recorded", "that": "another engine (that, this one is this)"} {
		log := records.New(records.Key{})
		log.Put(&records.Record{Session: "s", Provenance: &records.Provenance{Engine: engine}})
		log.Put(&records.Record{Session: "s", Sample: "a"})
		if got := engineNote(log, "this"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("engine %q: %q, want %q", engine, got, want)
		}
	}
}
