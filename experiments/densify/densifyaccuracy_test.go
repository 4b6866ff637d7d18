package densify

import (
	"strings"
	"testing"

	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// accuracyMadeUp is a log of made-up scores of a mini-batch and the place of a seed.
func accuracyMadeUp(t *testing.T, a *accuracy, name string, of func(batch, seed int) (bleu, nats float64)) *records.Log {
	t.Helper()
	log := records.New(a.Key(name))
	p := a.Spec.Profiles[name]
	for i, arm := range a.arms(p) {
		for j, seed := range p.Seeds {
			bleu, nats := of(i, j)
			if err := log.Add(arm.Sample(seed), seed, trained.Trial{
				SHA256: strings.Repeat("ab", 32), Params: 7, HeldOut: nats, Languages: []train.LanguageScore{{Name: "a language", Train: 8000, BLEU: bleu}},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return log
}

// Six seeds that swing by up to 1 BLEU: a difference of means has a deviation of
// sqrt(4/5), and an interval of 0.94 to either side (Student's t, 5 degrees of freedom,
// 2.5706 sqrt(0.8/6)).
func TestAccuracyReport(t *testing.T) {
	a := labtest.Loaded[*accuracy](t, Paper.Experiment("densify-accuracy").Load)
	labtest.CheckLacking(t, a, records.New(a.Key("quick")))
	log := accuracyMadeUp(t, a, "quick", func(batch, seed int) (float64, float64) {
		swing := []float64{1, 1, 0, 0, -1, -1}[seed]
		return []float64{50, 50.5 + swing, 49.8 + swing, 40 + swing}[batch], []float64{1, 0.9, 1, 1.5}[batch]
	})
	r, err := a.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	labtest.CheckPlots(t, r)
	printed := r.Tables[0].Printed()
	for i, want := range []string{
		"small|-|8|10000|50.00|0.00|1.0000|0.0000|-|-|-|50.00",
		"402k tokens|402,000|32|2500|50.50|0.89|0.9000|0.0000|+0.50 [-0.44, +1.44]|-0.1000 [-0.1000, -0.1000]|yes|50.50",
		"630k tokens|630,000|50|1600|49.80|0.89|1.0000|0.0000|-0.20 [-1.14, +0.74]|+0.0000 [+0.0000, +0.0000]|not shown|49.80",
		"1M tokens|1,000,000|80|1000|40.00|0.89|1.5000|0.0000|-10.00 [-10.94, -9.06]|+0.5000 [+0.5000, +0.5000]|no|40.00",
	} {
		if got := strings.Join(printed[i], "|"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if n := len(r.Tables[1].Rows); n != 4*6 {
		t.Errorf("%d trainings", n)
	}
	// Where nothing is translated nothing is comparable.
	r, err = a.Report(accuracyMadeUp(t, a, "quick", func(int, int) (float64, float64) { return 0, 3 }), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Tables[0].Rows[1][r.Tables[0].Column("comparable")].Text; got != "not shown" {
		t.Errorf("without translations: %s", got)
	}
}

// Every training sees as many examples, to the mini-batch, with a schedule of all of its
// steps; an interrupted experiment goes on.
func TestAccuracyMeasure(t *testing.T) {
	a := labtest.Loaded[*accuracy](t, Paper.Experiment("densify-accuracy").Load)
	for name, p := range a.Spec.Profiles {
		for i, arm := range a.arms(p) {
			tr := arm.Training(p.Seeds[0])
			if left := p.Examples - tr.Steps*tr.Batch; left < 0 || left >= tr.Batch || tr.Batch != a.Spec.Batches[i].Pairs {
				t.Errorf("%s, %s: %d steps of %d", name, arm.Name, tr.Steps, tr.Batch)
			}
		}
	}
	log := records.New(a.Key("smoke"))
	labtest.MeasureTwice(t, a, log)
	if len(log.Names) != 4*2 {
		t.Errorf("%d samples", len(log.Names))
	}
	if _, err := a.Report(log, nil); err != nil {
		t.Error(err)
	}
	if _, all, err := a.read(log); err != nil || all[0].Runs[0].SHA256 == all[1].Runs[0].SHA256 {
		t.Error("mini-batches of other sizes train the same", err)
	}
}

func TestAccuracySpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("densify-accuracy"), [][3]string{
		{"device: host", "device: emulated", "host devices"},
		{"pairs: 50}", "pairs: 32}", "want larger and larger ones"},
		{"examples: 400\n", "examples: 100\n", "two mini-batches"},
		{"batch: 8\n", "batch: 9\n", "want 8, the first of batches"},
		{"clip_norm: 1\n", "clip_norm: 1\n      steps: 3\n", "want no steps"},
		{"tied: all, ", "", "want all"},
		{"invented: {languages: 1, pairs: 200", "invented: {languages: 2, pairs: 200", "want 1"},
		{"language: de", "language: en_GB", "language"},
		{"    language: de\n", "", "either invented languages or those of catalogs"},
		{"catalogs: corpus", "invented: {languages: 1, pairs: 3, nouns: 4}\n    catalogs: corpus", "either invented languages or those of catalogs"},
		{"margin: 1", "margin: -1", "margin"},
	})
}
