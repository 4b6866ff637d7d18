package experiments

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments/gpipe/breakdown"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/rounds/roundstest"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/suite/suitetest"
	"gpipebench/internal/stats"
)

// Each table of an experiment says which seeds went into it, and that rounds are
// too few if they are; with enough the breakdown's shares have intervals.
func TestTablesSaySeedsAndNumbers(t *testing.T) {
	for _, timed := range []int{2, 7} {
		b := suitetest.Loaded[*breakdown.Breakdown](t, breakdown.Definition.Load)
		profile := b.Spec.Profiles["smoke"]
		profile.Rounds = timed
		b.Spec.Profiles["smoke"] = profile
		log := records.New(b.Key("smoke"))
		rng := rand.New(rand.NewPCG(7, uint64(timed)))
		for i := range b.Rounds(profile).Runs {
			r := b.Rounds(profile)
			r.Runs = r.Runs[i : i+1]
			for round := range timed { // rounds that differ
				one := *r
				one.Count = 1
				own := records.New(log.Key)
				roundstest.FillRounds(t, own, &one, 1<<16, func(*rounds.Run, int) float64 { return 0.5 + rng.Float64() })
				if err := log.Add(r.Runs[0].Sample(round, 0), 3, own.Samples[r.Runs[0].Sample(0, 0)].Data); err != nil {
					t.Fatal(err)
				}
			}
		}
		report, err := suite.ReportOf(b, log, nil)
		if err != nil {
			t.Fatal(err)
		}
		enough := timed >= stats.LeastForInterval(0.95)
		for _, table := range report.Tables {
			notes := strings.Join(table.Notes, "\n")
			if !strings.Contains(notes, "Seeds: 3.") || enough == strings.Contains(notes, fmt.Sprintf("Warning: n = %d rounds", timed)) {
				t.Errorf("%s, %d rounds: notes %q", table.ID, timed, notes)
			}
			with := 0
			for _, row := range table.Printed() {
				for i, c := range table.Columns {
					if strings.HasPrefix(c.Name, "95%") && strings.HasPrefix(row[i], "[") {
						with++
					}
				}
			}
			if enough != (with >= len(table.Rows)) || !enough && with > 0 {
				t.Errorf("%s, %d rounds: %d intervals in %d rows", table.ID, timed, with, len(table.Rows))
			}
		}
		if page := suite.ProvenanceNote(log); strings.Contains(page, "processes") {
			t.Errorf("of one process: %q", page)
		}
	}
}

func TestProvenanceOfProcesses(t *testing.T) {
	log := records.New(records.Key{Experiment: "e", Profile: "smoke"})
	for i, p := range []records.Provenance{{Time: "2026-01-02", Commit: "b"}, {Time: "2026-01-03", Commit: "c"}, {Time: "2026-01-01", Commit: "b"}} {
		id := fmt.Sprint(i)
		log.Put(&records.Record{Session: id, Provenance: &p})
		log.Put(&records.Record{Session: id, Sample: "sample " + id, Data: []byte("1")})
	}
	if got := suite.ProvenanceNote(log); !strings.HasPrefix(got, "Measured 2026-01-01 to 2026-01-03 by 3 processes, commit b, c, profile smoke") {
		t.Error(got)
	}
	if !slices.IsSortedFunc(log.Measuring(), func(a, b records.Provenance) int { return strings.Compare(a.Time, b.Time) }) {
		t.Error("not in the order of time")
	}
}
