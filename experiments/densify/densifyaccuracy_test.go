package densify

import (
	"fmt"
	"strings"
	"testing"

	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// accuracyMadeUp is a log of made-up scores of a mini-batch and the place of a seed.
func accuracyMadeUp(t *testing.T, x *trained.Experiment[struct{}], of func(batch, seed int) (bleu, nats float64)) *records.Log {
	t.Helper()
	log := records.New(x.Key("quick"))
	for _, seed := range x.Spec.Profiles["quick"].Seeds {
		without := map[string][]float64{"copy": {1}, "dictionary": {2}}
		if err := log.Add(trained.Arm{Name: "without a network"}.Sample(seed), seed, without); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range x.Spec.Arms {
		for j, seed := range x.Spec.Profiles["quick"].Seeds {
			bleu, nats := of(i, j)
			if err := log.Add(trained.Arm{Name: a.Name}.Sample(seed), seed, trained.Trial{
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
	x := labtest.Loaded[*trained.Experiment[struct{}]](t, Paper.Experiment("densify-accuracy").Load)
	log := accuracyMadeUp(t, x, func(batch, seed int) (float64, float64) {
		swing := []float64{1, 1, 0, 0, -1, -1}[seed]
		return []float64{50, 50.5 + swing, 49.8 + swing, 40 + swing}[batch], []float64{1, 0.9, 1, 1.5}[batch]
	})
	r, err := x.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	labtest.CheckPlots(t, r)
	printed := r.Tables[0].Printed()
	for i, want := range []string{
		"small|-|8|2500|50.00|0.00|+48.00 [+48.00, +48.00]|1.0000|0.0000|-|-|-|50.00",
		"402k tokens|402,000|32|625|50.50|0.89|+48.50 [+47.56, +49.44]|0.9000|0.0000|+0.50 [-0.44, +1.44]|-0.1000 [-0.1000, -0.1000]|yes|50.50",
		"630k tokens|630,000|50|400|49.80|0.89|+47.80 [+46.86, +48.74]|1.0000|0.0000|-0.20 [-1.14, +0.74]|+0.0000 [+0.0000, +0.0000]|not shown|49.80",
		"1M tokens|1,000,000|80|250|40.00|0.89|+38.00 [+37.06, +38.94]|1.5000|0.0000|-10.00 [-10.94, -9.06]|+0.5000 [+0.5000, +0.5000]|no|40.00",
	} {
		if got := strings.Join(printed[i], "|"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	// Where nothing is translated nothing is comparable.
	r, err = x.Report(accuracyMadeUp(t, x, func(int, int) (float64, float64) { return 0, 3 }), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Tables[0].Rows[1][r.Tables[0].Column("comparable")].Text; got != "not shown" {
		t.Errorf("without translations: %s", got)
	}
}

// Every training sees as many examples, to the mini-batch, with one tied table, and its rate rises
// over a tenth of all of its steps.
func TestAccuracyArms(t *testing.T) {
	x := labtest.Loaded[*trained.Experiment[struct{}]](t, Paper.Experiment("densify-accuracy").Load)
	for name, examples := range map[string]int{"smoke": 400, "quick": 20_000, "full": 400_000} {
		before := 0
		for _, a := range x.Spec.Arms {
			of := x.Spec.Training(x.Spec.Profiles[name], a, 1)
			rising := max(1, of.Steps/10)
			if left := examples - of.Steps*of.Batch; left < 0 || left >= of.Batch || of.Batch <= before || of.Model.Tied != "all" ||
				of.LRSchedule != fmt.Sprintf("warmup:%d,cosine:%d", rising, of.Steps-rising) || strings.Join(a.Axis, ", ") != fmt.Sprintf("%s, %d pairs", a.Name, of.Batch) {
				t.Errorf("%s, %s: %d steps of %d, %s", name, a.Name, of.Steps, of.Batch, of.LRSchedule)
			}
			before = of.Batch
		}
	}
}
