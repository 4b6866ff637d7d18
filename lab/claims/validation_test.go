package claims

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments/gpipe"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/simulate"
)

// The claims on validation hold, fail or are left open by what its table says.
func TestValidationClaims(t *testing.T) {
	v := labtest.Loaded[timed.Experiment](t, gpipe.Paper.Experiment("validation").Load)
	repeated, err := v.Repeated("quick")
	if err != nil {
		t.Fatal(err)
	}
	ledger := allClaims(t)
	for _, c := range []struct {
		rates float64 // over emulated, but in the last round
		last  float64 // emulated in the last round, over the others
		want  Verdict
	}{{1.05, 1, Holds}, {1.12, 1, Fails}, {1.12, 1.3, NotDecided}, {0.8, 1.3, Fails}} {
		log := records.New(v.Key("quick"))
		for round, names := range repeated.Samples() {
			s := timed.ModelledStep{Compared: simulate.Compared{Seconds: 1, Rates: c.rates, Own: 1, Peak: []int64{5}, HighWater: []int64{5}, ModelledPeak: []int64{5}}}
			if round == 5 {
				s.Seconds, s.Own = c.last, c.last
			}
			for _, name := range names {
				if err := log.Add(name, 1, s); err != nil {
					t.Fatal(err)
				}
			}
		}
		r, err := v.Report(log, nil)
		if err != nil {
			t.Fatal(err)
		}
		tables := tablesOf{"validation": {r.Tables[0], "validation", "quick", records.Cost{}}}
		for id, want := range map[string]Verdict{"validation-rates": c.want, "validation-own": Holds} {
			i := slices.IndexFunc(ledger, func(c Claim) bool { return c.ID == id })
			got, err := ledger[i].judge(newEvaluator(tables))
			if err != nil || got.Verdict != want || (want == NotDecided) != strings.HasSuffix(got.here(), "noisy") {
				t.Errorf("%s, %v off, last round %v: %s, %v, want %s (%s)", id, c.rates, c.last, got.Verdict, err, want, got.here())
			}
		}
	}
}
