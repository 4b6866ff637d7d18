package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/suite/suitetest"
	"gpipebench/experiments/trials"
	"gpipebench/experiments/workload"
	"gpipebench/nn"
)

// scaleLog is a log of made-up scores: of(arm, seed) are BLEU and nats of the
// first language; those of the next have 1 less and 0.1 more, and so on.
func scaleLog(t *testing.T, s *scale, profile string, of func(arm string, seed int) (bleu, nats float64)) *records.Log {
	t.Helper()
	log := records.New(s.Key(profile))
	p := s.Spec.Profiles[profile]
	for _, arm := range s.arms(p) {
		for j, seed := range p.Seeds {
			bleu, nats := of(arm.Name, j)
			r := trials.Trial{SHA256: strings.Repeat("ab", 32), Params: 7, Partition: []int{2, 2}}
			for l := range p.Data.Languages {
				r.Languages = append(r.Languages, workload.LanguageScore{BLEU: bleu - float64(l), Loss: nats + float64(l)/10, Targets: 90, HeldOut: 10})
			}
			if err := log.Add(arm.Sample(seed), seed, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return log
}

// Six seeds alternate by 1 BLEU: a difference of means has a deviation of 1.095
// and an interval of 1.15 to either side (Student's t, 5 degrees of freedom,
// 2.5706 * 1.0954 / sqrt(6)), and one of nats a hundredth of that.
func TestScaleReport(t *testing.T) {
	s := suitetest.Loaded[*scale](t, Definition.Load)
	arms := map[string]float64{
		"batch of 16": 0, "batch of 64": 5, "batch of 256": 5.5,
		"small": 0, "deep": 10, "wide": 4, "larger": 10.5,
	}
	log := scaleLog(t, s, "quick", func(arm string, seed int) (float64, float64) {
		more, ok := arms[arm]
		if !ok {
			t.Fatalf("arm %q", arm)
		}
		switch arm {
		case "batch of 256", "deep":
			more += []float64{1, -1}[seed%2]
		case "batch of 64", "larger":
			more += []float64{-1, 1}[seed%2]
		}
		return 40 + 3*float64(seed) + more, 2 - more/100
	})
	r, err := s.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	if len(r.Tables) != 4 || len(r.Tables[3].Rows) != 7*6 {
		t.Fatalf("%d tables", len(r.Tables))
	}
	batches, networks, differences := r.Tables[0], r.Tables[1], r.Tables[2]
	for i, want := range []string{
		"260K 30.92 2.58 16 144 47.50 5.61 2.0000 0.0000 baseline baseline - - 47.50",
		"1M 31.86 2.51 64 576 52.50",
		"4M 32.71 2.46 256 2304 53.00",
	} {
		if got := strings.Join(batches.Printed()[i], " "); !strings.HasPrefix(got, want) {
			t.Errorf("batch %d: %s, want %s", i, got, want)
		}
	}
	if row := batches.Printed()[2]; row[9] != "+5.50 [+4.35, +6.65]" || row[10] != "-0.0550 [-0.0665, -0.0435]" || row[11] != "+0.50 [-1.80, +2.80]" || row[12] != "-0.0050 [-0.0280, +0.0180]" || row[13] != row[5] {
		t.Errorf("largest batch %q", row)
	}
	if note := batches.Notes[0]; note != "Verdict: the larger mini-batch is better by BLEU and by loss, as in the paper (64 against 16), not shown to be better by both (256 against 64)." {
		t.Error(note)
	}
	// The means of two languages: half a BLEU and two and a half below the first.
	if got, want := strings.Join(networks.Printed()[1], " "), "deep T(4, 128, 2) T(24, 8192, 16) 1.3B 7 57.00 55.00 56.00 1.9500 2.1500 2.0500 56.00"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := strings.Join(differences.Printed()[3], " "), "deep - wide +6.00 [+4.85, +7.15] +6.00"; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	const better, open = "better (high-resource, low-resource, all)", "neither shown (high-resource, low-resource, all)"
	if want := fmt.Sprintf("Verdict by BLEU: deep against small: %s; wide against small: %s; larger against deep: %s; deep against wide: %s.", better, better, open, better); differences.Notes[0] != want {
		t.Error(differences.Notes[0])
	}
	suitetest.CheckPlots(t, r)
}

// The verdicts of a batch that is worse and of networks that are, or may be.
func TestScaleVerdicts(t *testing.T) {
	s := suitetest.Loaded[*scale](t, Definition.Load)
	swing := func(seed int) float64 { return []float64{2, -2}[seed%2] }
	log := scaleLog(t, s, "quick", func(arm string, seed int) (float64, float64) {
		switch arm {
		case "batch of 64": // better by loss only
			return 40 + swing(seed), 1.9
		case "batch of 256": // worse by loss
			return 40, 1.95
		case "deep":
			return 30 + swing(seed), 2
		case "wide":
			return 40 + swing(seed+1), 2
		}
		return 40, 2
	})
	r, err := s.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if note := r.Tables[0].Notes[0]; note != "Verdict: the larger mini-batch is worse by BLEU or by loss, unlike in the paper (256 against 64), not shown to be better by both (64 against 16)." {
		t.Error(note)
	}
	note := r.Tables[2].Notes[0]
	for _, want := range []string{
		"deep against small: worse (high-resource, low-resource, all);", "wide against small: neither shown (", "larger against deep: better (", "deep against wide: worse (",
	} {
		if !strings.Contains(note, want) {
			t.Errorf("no %q in %s", want, note)
		}
	}
	// Scores of other languages than the spec's are refused.
	p := s.Spec.Profiles["quick"]
	if err := log.Add(s.arms(p)[len(s.Spec.Batches)+2].Sample(3), 3, trials.Trial{SHA256: strings.Repeat("ab", 32), Params: 7, Partition: []int{2, 2}, Languages: []workload.LanguageScore{{}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Report(log, nil); err == nil || !strings.Contains(err.Error(), "wide/seed3: 1 languages: want 4") {
		t.Errorf("of one language: %v", err)
	}
}

// The smallest profile is measured, goes on where it was, and its trainings are
// what train does, on any number of partitions.
func TestScaleMeasures(t *testing.T) {
	s := suitetest.Loaded[*scale](t, Definition.Load)
	p := s.Spec.Profiles["smoke"]
	arms := s.arms(p)
	log := records.New(s.Key("smoke"))
	if err := s.Measure(context.Background(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	if n := len(arms) * len(p.Seeds); len(log.Names) != n {
		t.Errorf("%d samples, want %d", len(log.Names), n)
	}
	r, err := s.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	hashes := map[string]bool{}
	for _, row := range r.Tables[3].Printed() {
		hashes[row[5]] = true
	}
	if len(hashes) != len(r.Tables[3].Rows) {
		t.Errorf("%d hashes of %d trainings", len(hashes), len(r.Tables[3].Rows))
	}
	var wide trials.Trial
	arm := arms[slices.IndexFunc(arms, func(a trials.Arm) bool { return a.Name == "wide" })]
	if err := log.Get(arm.Sample(2), &wide); err != nil {
		t.Fatal(err)
	}
	training := arm.Training(2)
	training.Setup.Partitions, training.Setup.MicroBatches = 1, 1
	run, err := training.Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if run.WeightsSHA256 != wide.SHA256 || fmt.Sprint(run.Eval.Languages) != fmt.Sprint(wide.Languages) {
		t.Errorf("train at K = 1: %s %v, the trial %s %v", run.WeightsSHA256, run.Eval.Languages, wide.SHA256, wide.Languages)
	}
	// A run that was interrupted measures what is missing, and only that.
	part := records.New(s.Key("smoke"))
	kept := trials.Trial{SHA256: strings.Repeat("cd", 32), Languages: wide.Languages}
	if err := part.Add(arm.Sample(2), 2, kept); err != nil {
		t.Fatal(err)
	}
	if err := s.Measure(context.Background(), part, progress.Silent{}); err != nil || len(part.Names) != len(log.Names) {
		t.Errorf("%d samples, want %d: %v", len(part.Names), len(log.Names), err)
	}
	for _, a := range arms {
		for _, seed := range p.Seeds {
			var was, is trials.Trial
			if err := errors.Join(log.Get(a.Sample(seed), &was), part.Get(a.Sample(seed), &is)); err != nil {
				t.Fatal(err)
			}
			want := was.SHA256
			if a.Sample(seed) == arm.Sample(2) {
				want = kept.SHA256
			}
			if is.SHA256 != want {
				t.Errorf("%s: %s, want %s", a.Sample(seed), is.SHA256, want)
			}
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Measure(cancelled, records.New(s.Key("smoke")), progress.Silent{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Deep and wide networks are of one size, as the paper's, and the others grow as
// its networks do.
func TestScaleProportions(t *testing.T) {
	s := suitetest.Loaded[*scale](t, Definition.Load)
	params := func(m workload.Model) float64 {
		m.Vocab = 100
		layers, err := m.Build()
		if err != nil {
			t.Fatal(err)
		}
		return float64(nn.CountParams(layers))
	}
	for _, name := range suite.Profiles {
		m := s.Spec.Profiles[name].Training.Model
		of := map[string]float64{}
		for _, n := range s.Spec.Networks {
			of[n.Name] = params(n.scaled(m))
		}
		if ratio := of["deep"] / of["wide"]; ratio < 0.98 || ratio > 1.02 {
			t.Errorf("%s: deep has %.3f times the parameters of wide", name, ratio)
		}
		if !(of["small"] < of["wide"] && of["wide"] < of["larger"]) {
			t.Errorf("%s: %v", name, of)
		}
		if m.Heads*m.HeadDim != m.Dim {
			t.Errorf("%s: heads of %d in all, want the model's %d, as in the paper", name, m.Heads*m.HeadDim, m.Dim)
		}
	}
}

// What the spec must not be.
func TestScaleSpec(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"setup: {k: 2, m: 4,", "setup: {k: 2, m: 4, devise: 1,", "unknown field devise"},
		{"device: host", "device: emulated", "1: setup: trainings run beside"},
		{"nll: 2.58, times: 1}", "nll: 2.58, times: 2}", "batches.0.times: want 1 at first"},
		{"nll: 2.46, times: 16}", "nll: 2.46, times: 4}", "batches.2.times: want 1 at first"},
		{"layers: 4, width: 1}", "layers: 0, width: 1}", "networks.1.layers: \"0\": want a whole number"},
		{"name: wide, paper: \"T(12", "name: deep, paper: \"T(12", "networks.2: an entry of this name is there already, as entry 1"},
		{"{of: deep, to: wide}", "{of: deep, to: broad}", "differences.3.to: no network \"broad\""},
		{"{of: larger, to", "{of: largest, to", "differences.2.of: no network \"largest\""},
		{"seeds: [1, 2]\n", "seeds: [1, 0]\n", "profiles.smoke.seeds.1: \"0\": want a whole number of 1 or more"},
		{"low: 1, pairs", "low: 2, pairs", "profiles.smoke.data.low: 2 low-resource languages of 2"},
		{"{languages: 4,", "{languages: 9,", "profiles.quick.data: synthetic-translation: 9 languages, want 1 to 8"},
		{"held_out: 64", "held_out: 0", "profiles.quick.data.held_out: \"0\": want a whole number"},
		{"smallest_batch: 4", "smallest_batch: 3", "profiles.smoke.smallest_batch: 3 pairs: want 4 or more"},
		{"batch: 8", "batch: 3", "profiles.smoke.training.batch: 3 pairs: want 4 or more"},
		{"ff: 32, heads: 2, head_dim: 8,", "ff: 32, heads: 2,", "profiles.smoke.training.model: want 1 or more"},
		{"{name: transformer,", "{name: transformer-lm,", "profiles.smoke.training.model.name: want transformer"},
	} {
		line := suitetest.LineWith(suitetest.Edited(t, Definition, c.old, c.replacement), c.replacement)
		err := suitetest.Refused(t, Definition, c.old, c.replacement)
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("x.yaml:%d:", line)) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want line %d and %s", c.replacement, err, line, c.want)
		}
	}
}
