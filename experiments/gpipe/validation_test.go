package gpipe

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// A round of tiny networks: every sample is there, the modelled host knows every
// kind of operation, and its memory equals the emulated run's, to the byte.
func TestValidationRound(t *testing.T) {
	if testing.Short() {
		t.Skip("twenty networks: minutes under the race detector, which runs short tests")
	}
	v := labtest.Loaded[*validation](t, Paper.Experiment("validation").Load)
	rounds := testkit.Must(v.Repeated("smoke"))(t)
	log := records.New(v.Key("smoke"))
	testkit.NoError(t, v.Measure(t.Context(), log, progress.Silent{}))
	for _, name := range rounds.Samples()[0] {
		var s timed.ModelledStep
		testkit.NoError(t, log.Get(name, &s))
		if !s.SameMemory() || len(s.Peak) != len(s.Partition) {
			t.Errorf("%s: modelled %v, planned %v, reached %v, partition %v", name, s.ModelledPeak, s.Peak, s.HighWater, s.Partition)
		}
		if !(s.Seconds > 0 && s.Rates > 0 && s.Own > 0) || s.Rates == s.Own {
			t.Errorf("%s: emulated %v s, modelled %v by rates, %v by own operations", name, s.Seconds, s.Rates, s.Own)
		}
	}
	r := labtest.Reported(t, v, log)
	table := r.Tables[0]
	if len(table.Rows) != 9 || !slices.ContainsFunc(table.Notes, func(n string) bool { return strings.HasPrefix(n, "Within 10%: ") }) {
		t.Errorf("%d rows, notes %q", len(table.Rows), table.Notes)
	}
}

// A byte too many, wherever it is, is a verdict and names the row.
func TestValidationMemoryVerdict(t *testing.T) {
	v := labtest.Loaded[*validation](t, Paper.Experiment("validation").Load)
	for _, change := range []func(*timed.ModelledStep){
		func(s *timed.ModelledStep) { s.ModelledPeak[0]++ },
		func(s *timed.ModelledStep) { s.HighWater[1]++ },
	} {
		labtest.CheckVerdict(t, v, "amoebanetd/K=4/round=1", change, "validation: amoebanetd/K=4: memory")
	}
}
