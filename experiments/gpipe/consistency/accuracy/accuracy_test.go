package accuracy

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
)

// accuracyLog is a log of made-up accuracies: of(setup, seed) in percent.
func accuracyLog(t *testing.T, a *accuracy, profile string, of func(setup, seed int) float64) *records.Log {
	t.Helper()
	log := records.New(a.Key(profile))
	p := a.Spec.Profiles[profile]
	for i, arm := range a.arms(p) {
		for j, seed := range p.Seeds {
			r := trained.Trial{Accuracy: of(i, j) / 100, Targets: 1000, SHA256: strings.Repeat("ab", 32), Params: 7, Partition: []int{4}}
			if err := log.Add(arm.Sample(seed), seed, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return log
}

// The outcome at each M, of differences whose interval can be had by hand: with
// five seeds that alternate by d around a mean the deviation of the differences
// is about d, the 95% interval about 1.2 d to either side, the 90% one 0.95 d.
func TestAccuracyOutcomes(t *testing.T) {
	a := labtest.Loaded[*accuracy](t, Definition.Load)
	a.Spec.Margin = 3
	five := a.Spec.Profiles["quick"]
	five.Seeds = []uint64{1, 2, 3, 4, 5}
	a.Spec.Profiles["quick"] = five
	base := []float64{60, 62, 64, 66, 68} // mean 64, deviation 3.16
	swing := []float64{1, -1, 0, 1, -1}   // deviation 1
	for _, c := range []struct {
		shift, swing float64
		outcome      string
		verdict      string
		within       string
		mean         string
	}{
		{0.5, 1, "equivalent", "equivalent to M = 1 within 3 points", "5 of 5", "yes"},
		{-1.9, 1, "equivalent, though not equal", "though the difference is not 0", "5 of 5", "yes"},
		{-8, 1, "different", "different from M = 1, maybe by more", "2 of 5", "no"},
		{2, 4, "inconclusive", "neither a difference nor equivalence", "4 of 5", "yes"},
	} {
		log := accuracyLog(t, a, "quick", func(setup, seed int) float64 {
			if setup == 0 {
				return base[seed]
			}
			return base[seed] + c.shift + c.swing*swing[seed]
		})
		r, err := a.Report(log, log)
		if err != nil {
			t.Fatal(err)
		}
		table := r.Tables[0]
		if n := len(a.Spec.Setups); len(table.Rows) != n || len(r.Tables[1].Rows) != 5*n {
			t.Fatalf("%d rows, %d trainings", len(table.Rows), len(r.Tables[1].Rows))
		}
		row := table.Printed()[1]
		if row[9] != c.outcome || row[4] != c.within || row[5] != c.mean {
			t.Errorf("%+v: row %q", c, row)
		}
		if note := table.Notes[0]; !strings.Contains(note, c.verdict) {
			t.Errorf("%+v: %s", c, note)
		}
		if got := table.Printed()[0][2]; got != "64.00%" || table.Printed()[0][10] != got {
			t.Errorf("baseline %q", table.Printed()[0])
		}
		labtest.CheckPlots(t, r)
	}
}

// The smallest profile is measured, twice the same, and goes on where it was.
func TestAccuracyMeasures(t *testing.T) {
	a := labtest.Loaded[*accuracy](t, Definition.Load)
	log := records.New(a.Key("smoke"))
	if err := a.Measure(context.Background(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := a.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(r.Tables[0].Notes, "\n"); !strings.Contains(notes, "Warning: n = 2 seeds") {
		t.Errorf("notes %s", notes)
	}
	p := a.Spec.Profiles["smoke"]
	arms := a.arms(p)
	hashes := map[string]bool{}
	for i, arm := range arms {
		var was trained.Trial
		if err := log.Get(arm.Sample(p.Seeds[0]), &was); err != nil {
			t.Fatal(err)
		}
		hashes[was.SHA256] = true
		// On another number of partitions the same comes out at the same M.
		training := arm.Training(p.Seeds[0])
		training.Setup.Partitions = 3
		again, err := trained.Train(context.Background(), training)
		if err != nil {
			t.Fatal(err)
		}
		if again.SHA256 != was.SHA256 || again.Accuracy != was.Accuracy || again.HeldOut != was.HeldOut {
			t.Errorf("setup %d: %+v and %+v", i, was, again)
		}
	}
	// A trial is what train does.
	run, err := arms[1].Training(p.Seeds[0]).Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !hashes[run.WeightsSHA256] {
		t.Errorf("train ends with other weights: %s", run.WeightsSHA256)
	}
	if len(hashes) != len(arms) {
		t.Errorf("%d hashes of %d values of M", len(hashes), len(arms))
	}
	n := len(log.Names)
	if err := a.Measure(context.Background(), log, progress.Silent{}); err != nil || len(log.Names) != n {
		t.Errorf("measured again: %d samples more, %v", len(log.Names)-n, err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.Measure(cancelled, records.New(a.Key("smoke")), progress.Silent{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
