package experiments

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// accuracyLog is a log of made-up accuracies: of(setup, seed) in percent.
func accuracyLog(t *testing.T, a *accuracy, profile string, of func(setup, seed int) float64) *Log {
	t.Helper()
	log := NewLog(a.Key(profile))
	p := a.spec.Profiles[profile]
	for i, arm := range a.arms(p) {
		for j, seed := range p.Seeds {
			r := trial{Accuracy: of(i, j) / 100, Targets: 1000, SHA256: strings.Repeat("ab", 32), Params: 7, Partition: []int{4}}
			if err := log.Add(arm.sample(seed), seed, r); err != nil {
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
	a := loaded[*accuracy](t, loadAccuracy)
	a.spec.Margin = 3
	five := a.spec.Profiles["quick"]
	five.Seeds = []uint64{1, 2, 3, 4, 5}
	a.spec.Profiles["quick"] = five
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
		{2, 4, "inconclusive", "neither a difference nor its absence", "4 of 5", "yes"},
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
		if n := len(a.spec.Setups); len(table.Rows) != n || len(r.Tables[1].Rows) != 5*n {
			t.Fatalf("%d rows, %d trainings", len(table.Rows), len(r.Tables[1].Rows))
		}
		row := table.Rows[1]
		if row[9] != c.outcome || row[4] != c.within || row[5] != c.mean {
			t.Errorf("%+v: row %q", c, row)
		}
		if note := table.Notes[0]; !strings.Contains(note, c.verdict) {
			t.Errorf("%+v: %s", c, note)
		}
		if got := table.Rows[0][2]; got != "64.00%" || table.Rows[0][10] != got {
			t.Errorf("baseline %q", table.Rows[0])
		}
		checkPlot(t, r)
	}
}

func checkPlot(t *testing.T, r *Report) {
	t.Helper()
	if len(r.Files) != 2 || !strings.HasPrefix(r.Files[0].Text, "<?xml") || !strings.HasPrefix(r.Files[1].Text, "\x89PNG") {
		t.Errorf("%d files, want an SVG and a PNG", len(r.Files))
	}
}

// The smallest profile is measured, twice the same, and goes on where it was.
func TestAccuracyMeasures(t *testing.T) {
	a := loaded[*accuracy](t, loadAccuracy)
	log := NewLog(a.Key("smoke"))
	if err := a.Measure(context.Background(), log, Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := a.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(r.Tables[0].Notes, "\n"); !strings.Contains(notes, "Warning: n = 2 seeds") {
		t.Errorf("notes %s", notes)
	}
	p := a.spec.Profiles["smoke"]
	arms := a.arms(p)
	hashes := map[string]bool{}
	for i, arm := range arms {
		var was trial
		if err := log.Get(arm.sample(p.Seeds[0]), &was); err != nil {
			t.Fatal(err)
		}
		hashes[was.SHA256] = true
		// On another number of partitions the same comes out at the same M.
		training := arm.training(p.Seeds[0])
		training.Setup.Partitions = 3
		again, err := train(context.Background(), training)
		if err != nil {
			t.Fatal(err)
		}
		if again.SHA256 != was.SHA256 || again.Accuracy != was.Accuracy || again.HeldOut != was.HeldOut {
			t.Errorf("setup %d: %+v and %+v", i, was, again)
		}
	}
	// A trial is what train does.
	run, err := arms[1].training(p.Seeds[0]).Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !hashes[run.WeightsSHA256] {
		t.Errorf("train ends with other weights: %s", run.WeightsSHA256)
	}
	if len(hashes) != len(arms) {
		t.Errorf("%d hashes of %d values of M", len(hashes), len(arms))
	}
	n := len(log.names)
	if err := a.Measure(context.Background(), log, Silent{}); err != nil || len(log.names) != n {
		t.Errorf("measured again: %d samples more, %v", len(log.names)-n, err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.Measure(cancelled, NewLog(a.Key("smoke")), Silent{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestDelayedReduction(t *testing.T) {
	d := loaded[*delayed](t, loadDelayed)
	log := NewLog(d.Key("smoke"))
	if err := d.Measure(context.Background(), log, Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := d.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	own, paper := r.Tables[0].Rows, r.Tables[1].Rows
	if len(own) != 2 || len(paper) != 2 || len(r.Tables[2].Rows) != 2*len(d.spec.Profiles["smoke"].Seeds) {
		t.Fatalf("%v, %v", own, paper)
	}
	if own[0][1] != own[1][1] || paper[0][1] != paper[1][1] {
		t.Errorf("parameters differ: %v, %v", own, paper)
	}
	// "The activation memory footprint increased four times but the model size
	// stayed the same" (first version, section 5).
	if ratio := paper[1][3]; ratio < "3.8" || ratio > "4.2" || len(ratio) != 4 {
		t.Errorf("activations at the paper's scale: %s times, want about 4", ratio)
	}
	// Of images so small that roundings count.
	if ratio := own[1][3]; ratio < "2.5" || ratio > "4.2" {
		t.Errorf("activations: %s times", ratio)
	}
	runs := r.Tables[2].Rows
	if runs[0][5] == runs[len(runs)-2][5] {
		t.Errorf("both networks end with the weights %s", runs[0][5])
	}
	checkPlot(t, r)
}

func TestDelayedVerdict(t *testing.T) {
	d := &delayed{}
	for _, c := range []struct {
		late []float64
		want string
	}{
		{[]float64{63, 64, 62, 65, 63}, "as the paper says"},
		{[]float64{53, 54, 52, 55, 53}, "not what the paper says"},
		{[]float64{63, 54, 62, 55, 66}, "inconclusive"},
	} {
		if got := d.verdict(pairs(c.late, []float64{60, 59, 60, 61, 60})); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c.late, got)
		}
	}
}

// What a spec of trainings must not be.
func TestTrialSpecs(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"margin: 5", "margin: 0", "consistency_accuracy.yaml:%d:9: margin: \"0\": want a number above 0"},
		{"level: 0.05", "level: 0.5", "consistency_accuracy.yaml:%d:8: level: \"0.5\": want a number above 0 to 0.499"},
		{"{k: 1, m: 1, checkpoint", "{k: 2, m: 1, checkpoint", "consistency_accuracy.yaml:%d:5: setups.0: want K = 1"},
		{"{k: 2, m: 4, ", "{k: 2, m: 4, device: emulated, ", "consistency_accuracy.yaml:%d:5: setups.1: trainings run beside"},
		{"seeds: [1, 2]\n", "seeds: []\n", "consistency_accuracy.yaml:%d:12: profiles.smoke.seeds: an empty list: want at least one entry"},
	} {
		text := edited(t, "consistency_accuracy.yaml", c.old, c.replacement)
		line := lineWith(text, c.replacement)
		a := &accuracy{}
		err := decodeSpec("consistency_accuracy.yaml", text, &a.spec, a.check)
		if want := fmt.Sprintf(c.want, line); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", c.replacement, err, want)
		}
	}
}
