package trained

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// deep is a network on noisy targets, at the rate of pilots and at a hundred times it, with a clip and without.
const deep = `
experiment: deep
kind: trained
title: "Deep"
source: none
discard: nothing
seed: 1
metric: nats
setup: {threads: 1}
watch: {nats: 1, steps: 5, every: 10, examples: 4, peaky: 0.9}
arms:
  - {name: slow}
  - {name: fast, rate: {of: slow, times: 100}}
  - {name: clipped, rate: {of: slow, times: 1}, training: {model: {clip_logits: 0.5}}}
tables:
  - caption: ["."]
    columns:
      - {head: training, is: label}
      - {head: rate, is: rate, as: "%g"}
      - {head: rate at an end, is: at_edge}
      - {head: runs that collapse, is: collapses}
      - {head: at step, is: onset}
      - {head: largest gradient norm over the median, is: median(norm), as: "%.3g"}
      - {head: peaky predictions, is: median(peaky), as: "%.1f%%"}
      - {head: largest logit at the start, is: median(first_logit), as: "%.2f"}
      - {head: clipped logits, is: largest(clipped), as: "%.2f%%"}
      - {head: held-out loss, is: mean(held_out), as: "%.4f"}
      - {head: "pilots: loss by rate", is: pilots}
panels: [{draw: each, y: nats}]
profiles:
  smoke: &smoke
    expected: 5s
    pilots: {seeds: [101], rates: [0.01, 0.02], share: 0.5}
    seeds: [1, 2]
    data: {invented: {languages: 1, pairs: 60, nouns: 4}, held_out: 8, noise: 0.5}
    pace: {warm_up: 0.1, constant: true}
    training: {model: {name: transformer, layers: 1, dim: 16, ff: 32, heads: 2, seq: 48, final_norm: true}, batch: 8, steps: 40, optimizer: adam}
  quick: *smoke
  full: *smoke
`

// A training collapses at the first of as many steps in a row whose losses are above the least before them
// by more than allowed, and not where one in between is below.
func TestCollapse(t *testing.T) {
	w := Watch{Nats: 1, Steps: 3}
	for _, c := range []struct {
		losses []float64
		at     int
	}{
		{[]float64{3, 2, 3.1, 3.2, 3.3}, 3},
		{[]float64{3, 2, 3.1, 3.2, 3, 3.3, 3.4}, 0},
		{[]float64{3, 2, 3.1, 3.2, 2.9, 3.3, 3.4, 9}, 6},
		{[]float64{3, 3.5, 3.9, 4, 3.9}, 0},
		{[]float64{5, 4, 3}, 0},
		{nil, 0},
	} {
		testkit.Equal(t, w.collapse(c.losses), c.at, "%v: collapsed at step", c.losses)
	}
}

// A training that is watched goes as train's until it collapses, where it ends; its rate is what
// another's pilots chose times a number; a clip is seen in the logits.
func TestWatch(t *testing.T) {
	x := mustRead(t, deep)
	f, size := &x.Spec.Frame, x.Spec.Profiles["smoke"]
	log := records.New(x.Key("smoke"))
	labtest.MeasureTwice(t, x, log)
	arms := testkit.Must(f.chosen(size, log))(t)
	trials := testkit.Must(Read(log, arms, size.Seeds))(t)
	slow, fast, clipped := trials[0], trials[1], trials[2]
	if base := slow.Training(1).LR; fast.Training(1).LR != 100*base || clipped.Training(1).LR != base {
		t.Errorf("rates %g, %g and %g", base, fast.Training(1).LR, clipped.Training(1).LR)
	}
	plain, err := Train(t.Context(), slow.Training(1))
	if own := slow.Runs[0]; err != nil || own.Collapsed != 0 || own.SHA256 != plain.SHA256 || own.HeldOut != plain.HeldOut || !slices.Equal(own.Curve, plain.Curve) {
		t.Errorf("watched %+v, otherwise %+v, %v", own, plain, err)
	}
	steps := []int{}
	for _, at := range slow.Runs[0].Looks {
		steps = append(steps, at.Step)
	}
	if !slices.Equal(steps, []int{0, 10, 20, 30, 40}) || slow.Runs[0].Norm < 1 || slow.Runs[0].Looks[0].Clipped != 0 {
		t.Errorf("looks at steps %v, norm %v", steps, slow.Runs[0].Norm)
	}
	for _, r := range fast.Runs {
		if r.Collapsed == 0 || len(r.Curve) >= 40 || math.IsNaN(r.HeldOut) {
			t.Errorf("at 100 times the rate: %+v", r)
		}
	}
	if at := clipped.Runs[0].Looks[0]; at.Largest != 0.5 || at.Clipped <= 0 || at.Clipped >= 1 {
		t.Errorf("a clip of 0.5: %+v", at)
	}
	r := testkit.Must(x.Report(log, nil))(t)
	rows := r.Tables[0].Printed()
	if rows[0][3] != "0 of 2" || rows[1][3] != "2 of 2" || rows[0][4] != "-" || rows[1][2] != "-" || !strings.HasPrefix(rows[0][10], "0.01: ") || rows[1][10] != "-" {
		t.Errorf("rows %v", rows)
	}
	scores, err := x.Scores(log)
	if err != nil || !slices.Equal(scores["fast"]["collapsed"], []float64{1, 1}) || !slices.Equal(scores["slow"]["collapsed"], []float64{0, 0}) || len(scores["slow"]["peaky"]) != 2 {
		t.Errorf("scores %v, %v", scores, err)
	}
	if w := (&Watched{EndedBy: "NaN", Norm: 3}); !math.IsInf(watched["norm"](w), 1) {
		t.Error("a step without a finite gradient has no largest norm")
	}
	broken := *fast.Runs[0]
	broken.Watched = &Watched{EndedBy: "NaN", Looks: broken.Looks}
	testkit.Fails(t, broken.Check())
}

// A soft clip makes logits limit·tanh(x/limit), where a hard one cuts them off, and gradients
// pass.
func TestSoftClip(t *testing.T) {
	x := mustRead(t, deep)
	f, size := &x.Spec.Frame, x.Spec.Profiles["smoke"]
	logits := func(limit float64, soft bool) []float32 {
		training := f.Training(size, f.Arms[0], 1)
		training.LR, training.Model.ClipLogits, training.Model.SoftClip = 0.01, limit, soft
		l := testkit.Must(training.Open(t.Context()))(t)
		defer l.Close()
		out := testkit.Must(l.Trainer.Predict(t.Context(), f.Watch.batch(l.Source.(*datasets.Translation), 4).Inputs...))(t)
		if step, err := l.Step(t.Context()); err != nil || soft && step.GradNorm == 0 {
			t.Errorf("a step %+v, %v", step, err)
		}
		return out[0].F32
	}
	free, soft, hard := logits(0, false), logits(0.5, true), logits(0.5, false)
	for i, x := range free {
		want := 0.5 * math.Tanh(float64(x)/0.5)
		if math.Abs(float64(soft[i])-want) > 1e-6 || math.Abs(float64(hard[i])-max(-0.5, min(0.5, float64(x)))) > 1e-6 {
			t.Fatalf("logit %v becomes %v and %v, want %v", x, soft[i], hard[i], want)
		}
	}
}

// What specs whose trainings are watched must not say.
func TestWatchRefused(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"    data: {invented: {languages: 1, pairs: 60, nouns: 4}, held_out: 8, noise: 0.5}\n", "", "want data of translators"},
		{"constant: true}", "constant: true, evaluations: 2}", "no best weights, where trainings are watched"},
		{"rate: {of: slow, times: 100}", "rate: {of: clipped, times: 100}", "want an arm that has a rate of its own"},
		{"    pilots: {seeds: [101], rates: [0.01, 0.02], share: 0.5}\n", "", "no"},
	} {
		testkit.Has(t, deep, c.old)
		testkit.Refused(read(t, strings.Replace(deep, c.old, c.replacement, 1)))(t, c.want)
	}
}
