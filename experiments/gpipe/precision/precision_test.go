package precision

import (
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
)

// The outcome of made-up accuracies, whose pairs differ by a shift and by one point more or
// less.
func TestOutcomes(t *testing.T) {
	x := labtest.Loaded[*precision](t, Definition.Load)
	x.Spec.Margin = 3
	for _, c := range []struct {
		shift, swing float64
		outcome      string
	}{{0, 1, "equivalent"}, {-1.9, 1, "equivalent, though not equal"}, {-8, 1, "different"}, {2, 6, "inconclusive"}} {
		log := records.New(x.Key("quick"))
		p := x.Spec.Profiles["quick"]
		for i, arm := range x.arms(p) {
			for j, seed := range p.Seeds {
				points := 60 + 2*float64(j) + float64(i)*(c.shift+c.swing*float64(1-j%2*2))
				r := trained.Trial{Accuracy: points / 100, HeldOut: 1 + float64(i)/8, Targets: 1000, SHA256: strings.Repeat("ab", 32), Params: 7, Partition: []int{4}}
				if err := log.Add(arm.Sample(seed), seed, r); err != nil {
					t.Fatal(err)
				}
			}
		}
		r, err := x.Report(log, log)
		if err != nil {
			t.Fatal(err)
		}
		row := r.Tables[0].Printed()[1]
		if row[0] != "bfloat16" || row[7] != c.outcome || !strings.Contains(row[8], "0.1250") {
			t.Errorf("%+v: row %q", c, row)
		}
		labtest.CheckPlots(t, r)
	}
}

// The smallest profile is measured: other bits with bfloat16, from the same weights.
func TestMeasures(t *testing.T) {
	x := labtest.Loaded[*precision](t, Definition.Load)
	log := records.New(x.Key("smoke"))
	if err := x.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := x.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(r.Tables[0].Notes, "\n"); !strings.Contains(notes, "Warning: n = 2 seeds") {
		t.Errorf("notes %s", notes)
	}
	p := x.Spec.Profiles["smoke"]
	for _, seed := range p.Seeds {
		hashes := map[string]bool{}
		for _, arm := range x.arms(p) {
			var trial trained.Trial
			if err := log.Get(arm.Sample(seed), &trial); err != nil {
				t.Fatal(err)
			}
			hashes[trial.SHA256] = true
		}
		if len(hashes) != 2 {
			t.Errorf("seed %d: float32 and bfloat16 end with the same weights", seed)
		}
	}
}
