package gpipe

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/simulate"
)

// A round of tiny networks: every sample is there, the modelled host knows every
// kind of operation, and its memory is that of the emulated run, to the byte.
func TestValidationRound(t *testing.T) {
	if testing.Short() {
		t.Skip("twenty networks: minutes under the race detector, which runs short tests")
	}
	v := labtest.Loaded[*validation](t, Paper.Experiment("validation").Load)
	rounds, err := v.Repeated("smoke")
	if err != nil {
		t.Fatal(err)
	}
	log := records.New(v.Key("smoke"))
	if err := v.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range rounds.Samples()[0] {
		var s timed.ModelledStep
		if err := log.Get(name, &s); err != nil {
			t.Fatal(err)
		}
		if !s.SameMemory() || len(s.Peak) != len(s.Partition) {
			t.Errorf("%s: modelled %v, planned %v, reached %v, partition %v", name, s.ModelledPeak, s.Peak, s.HighWater, s.Partition)
		}
		if !(s.Seconds > 0 && s.Rates > 0 && s.Own > 0) || s.Rates == s.Own {
			t.Errorf("%s: emulated %v s, modelled %v by rates, %v by own operations", name, s.Seconds, s.Rates, s.Own)
		}
	}
	r, err := v.Report(log, nil)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	table := r.Tables[0]
	if len(table.Rows) != 9 || !slices.ContainsFunc(table.Notes, func(n string) bool { return strings.HasPrefix(n, "Within 10%: ") }) {
		t.Errorf("%d rows, notes %q", len(table.Rows), table.Notes)
	}
}

// A byte too many, wherever it is, is a verdict and names the row.
func TestValidationMemoryVerdict(t *testing.T) {
	v := labtest.Loaded[*validation](t, Paper.Experiment("validation").Load)
	for what, change := range map[string]func(*timed.ModelledStep){
		"modelled": func(s *timed.ModelledStep) { s.ModelledPeak[1]++ },
		"reached":  func(s *timed.ModelledStep) { s.HighWater[0]++ },
	} {
		log := records.New(v.Key("smoke"))
		rounds, _ := v.Repeated("smoke")
		for i, name := range rounds.Samples()[0] {
			s := timed.ModelledStep{Compared: simulate.Compared{Seconds: 1, Rates: 1.05, Own: 0.8, Peak: []int64{5, 6}, HighWater: []int64{5, 6}, ModelledPeak: []int64{5, 6}}}
			if i == 4 {
				change(&s)
			}
			if err := log.Add(name, 1, s); err != nil {
				t.Fatal(err)
			}
		}
		r, err := v.Report(log, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict == nil || !strings.Contains(r.Verdict.Error(), "validation: amoebanetd/K=4: memory") {
			t.Errorf("%s: verdict %v", what, r.Verdict)
		}
		if note := r.Tables[0].Notes[0]; !strings.Contains(note, "Within 10%: by rates 9 of 9, the worst off by 5.0%; by own operations 0 of 9, the worst off by 20.0%.") {
			t.Error(note)
		}
	}
}
