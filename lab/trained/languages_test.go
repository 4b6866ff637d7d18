package trained

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// multilingual is a translator of three languages and one of the second alone, at a pace.
const multilingual = `
experiment: multilingual
kind: trained
title: "Multilingual"
source: none
discard: nothing
seed: 1
metric: nats
margin: 0.05
baselines: true
setup: {threads: 1}
arms: [{name: all}, {name: alone, only: 2}]
pairs: [{of: alone, to: all, label: alone - all}]
tables:
  - caption: ["{{.data}}"]
    columns:
      - {head: training, is: label}
      - {head: "T(layers, ff, heads)", is: shape}
      - {head: rate, is: rate, as: "%g"}
      - {head: rate at an end, is: at_edge}
      - {head: examples over the first, is: exposure, as: "%.3f"}
      - {head: training loss at the end, is: mean(training_loss), as: "%.4f"}
      - {head: steps made, is: mean(steps_made), as: "%.0f"}
      - {head: held-out loss, is: mean(held_out), as: "%.4f"}
      - {head: BLEU, is: mean(BLEU), as: "%.2f"}
      - {head: BLEU less dictionary, is: over_dictionary}
      - {head: "pilots: loss by rate", is: pilots}
  - id: pairs
    caption: ["."]
    rows: pairs
    columns:
      - {head: difference, is: pair}
      - {head: difference (points), is: difference}
      - {head: training loss (nats), is: difference_training}
  - id: languages
    caption: ["."]
    rows: by-language
    columns:
      - {head: language, is: language}
      - {head: training pairs, is: pairs}
      - {head: share of a batch, is: share}
      - {head: nats per token, is: mean(nats_all), as: "%.4f"}
      - {head: nats of a translator of its own, is: mean(nats_alone), as: "%.4f"}
      - {head: the other, is: mean(nats_alone), as: "%.4f"}
      - {head: BLEU of a translator of its own, is: mean(BLEU_alone), as: "%.2f"}
      - {head: BLEU, is: mean(BLEU_all), as: "%.2f"}
      - {head: BLEU of a dictionary, is: mean(dictionary), as: "%.2f"}
panels: [{draw: bleu}, {draw: differences, rows: pairs, margin: true}, {draw: curves}]
profiles:
  smoke: &smoke
    expected: 5s
    pilots: {seeds: [101], rates: [0.01, 0.02], share: 0.5, widen: 2}
    seeds: [1, 2, 3]
    data: {invented: {languages: 3, pairs: 90, nouns: 4}, held_out: 8, temperature: 1}
    pace: {warm_up: 0.25, evaluations: 2}
    training: {model: {name: transformer, layers: 1, dim: 16, ff: 32, heads: 2, seq: 48}, batch: 8, steps: 12, optimizer: adam}
    arms: {alone: {steps: 4}}
  quick: *smoke
  full: *smoke
`

// A pace sets schedules and evaluations by the steps of each training, those of pilots included; what
// sees one language has its data alone.
func TestPace(t *testing.T) {
	x := mustRead(t, multilingual)
	f, size := &x.Spec.Frame, x.Spec.Profiles["smoke"]
	all, alone := f.Training(size, f.Arms[0], 1), f.Training(size, f.Arms[1], 1)
	if all.LRSchedule != "warmup:3,cosine:9" || all.EvalEvery != 6 || all.Keep != train.KeepBest || alone.LRSchedule != "warmup:1,cosine:3" || alone.EvalEvery != 2 {
		t.Errorf("%+v and %+v", all, alone)
	}
	if all.Config.Multilingual.Only != 0 || alone.Config.Multilingual.Only != 2 || all.Config.Translation.Temperature != 1 {
		t.Errorf("%+v and %+v", all.Config, alone.Config)
	}
	if half := f.grid(size, f.Arms[0], size.Pilots.Rates)[1].Training(101); half.Steps != 6 || half.LRSchedule != "warmup:1,cosine:5" || half.EvalEvery != 3 || half.LR != 0.02 {
		t.Errorf("a pilot %+v", half)
	}
	size.Pace.Constant = true
	if stays := f.Training(size, f.Arms[0], 1); stays.LRSchedule != "warmup:3,constant" {
		t.Errorf("%+v", stays)
	}
}

// A training ends after as many evaluations without a lower loss as its pace is patient, with the
// weights of the best one: those of a training that makes no more steps than up to there.
func TestPatience(t *testing.T) {
	training := traintest.TinyTraining()
	training.LR, training.Steps, training.Config.Synthetic.HeldOut = 0.5, 400, 14
	pace := Pace{Evaluations: 100, Patience: 3}
	pace.set(&training)
	trial := testkit.Must(Train(t.Context(), training))(t)
	if want := trial.Best.Step + 3*4; trial.Ended != want || len(trial.Curve) == 0 || trial.Ended == 400 {
		t.Fatalf("ended after %d steps, best after %d: want %d", trial.Ended, trial.Best.Step, want)
	}
	training.Steps, training.Patience = trial.Best.Step+4, 0
	short, err := Train(t.Context(), training)
	if err != nil || short.SHA256 != trial.SHA256 || short.Ended != 0 || short.HeldOut != trial.HeldOut {
		t.Errorf("%+v, %v; want the weights of %+v", short, err, trial)
	}
	training.Patience, training.Keep = 3, train.KeepLast
	testkit.Refused(Train(t.Context(), training))(t, "a patience of 3 evaluations: want 0 or more, and the best weights")
}

// While the best rate is at an end, the next one beyond it is tried, as often as is allowed.
func TestWidenedPilots(t *testing.T) {
	for _, c := range []struct {
		losses map[float64]float64
		rates  []float64
		best   float64
		edge   string
	}{
		{map[float64]float64{0.01: 3, 0.02: 2, 0.04: 2.5}, []float64{0.01, 0.02, 0.04}, 0.02, "no"},
		{map[float64]float64{0.005: 4, 0.01: 3, 0.02: 3.5}, []float64{0.005, 0.01, 0.02}, 0.01, "no"},
		{map[float64]float64{0.01: 3, 0.02: 2, 0.04: 1, 0.08: 0.5}, []float64{0.01, 0.02, 0.04, 0.08}, 0.08, "yes"},
	} {
		x := mustRead(t, multilingual)
		f, size := &x.Spec.Frame, x.Spec.Profiles["smoke"]
		log := records.New(x.Key("smoke"))
		for range 3 { // each time those that the ones before call for
			rates, _, _ := f.piloted(size, f.Arms[0], log)
			for i, of := range f.grid(size, f.Arms[0], rates) {
				if !log.Has(of.Sample(101)) {
					q := pilot{Trial: trial(1, 9, 1)}
					q.Best = &train.Best{Step: 1, Loss: c.losses[rates[i]]}
					add(t, log, of.Sample(101), 101, q)
				}
			}
		}
		rates, losses, err := f.piloted(size, f.Arms[0], log)
		if err != nil || !slices.Equal(rates, c.rates) || len(losses) != len(rates) {
			t.Fatalf("%v: rates %v, losses %v, %v", c.losses, rates, losses, err)
		}
		arm := f.arm(size, f.Arms[0], rates[slices.Index(losses, slices.Min(losses))])
		own := &Result{Trials: Trials{Arm: arm}, Rates: rates, Pilots: losses}
		if got := own.atEdge(); arm.Training(1).LR != c.best || got != c.edge {
			t.Errorf("%v: rate %g, at an edge: %v", c.losses, arm.Training(1).LR, got)
		}
	}
}

// Trainings of several languages and of one are measured with pilots and what no network scores, and
// shown by language; both are scores of a design.
func TestMultilingual(t *testing.T) {
	x := mustRead(t, multilingual)
	log := records.New(x.Key("smoke"))
	if left, all := x.Left(log); left != 6 || all != 6 {
		t.Errorf("%d of %d trainings are left, want 6 of 6", left, all)
	}
	labtest.MeasureTwice(t, x, log)
	if left, all := x.Left(log); left != 0 || all != 6 {
		t.Errorf("%d of %d trainings are left, want none", left, all)
	}
	r := testkit.Must(x.Report(log, nil))(t)
	labtest.CheckPlots(t, r)
	scores := testkit.Must(x.Scores(log))(t)
	for _, of := range [][]string{{"all", "nats, 2"}, {"all", "BLEU, 3"}, {"alone", "held-out"}, {"dictionary", "BLEU"}, {"copy", "BLEU"}} {
		testkit.Equal(t, len(scores[of[0]][of[1]]), 3, "scores %v: %v", of, scores[of[0]][of[1]])
	}
	if _, has := scores["alone"]["nats, 2"]; has {
		t.Error("a translator of one language has scores of several")
	}
	// 90 + 23 + 10 pairs, which have their shares at temperature 1: of 12 mini-batches 23/123 are 2.24.
	table := r.Tables[0]
	if got := table.Rows[1][table.Column("examples over the first")].Numbers[0]; math.Abs(got-4/(12*23.0/123)) > 1e-9 {
		t.Errorf("exposure %v", got)
	}
	languages := r.Tables[2].Printed()
	if len(languages) != 3 || languages[1][1] != "23" || languages[0][4] != "-" || languages[1][4] != languages[1][5] || languages[1][3] == languages[1][4] {
		t.Errorf("languages %v", languages)
	}
	pairs := r.Tables[1].Printed()
	if len(pairs) != 1 || pairs[0][0] != "alone - all" || !strings.Contains(pairs[0][2], "[") {
		t.Errorf("pairs %v", pairs)
	}
	arms := testkit.Must(x.Spec.chosen(x.Spec.Profiles["smoke"], log))(t)
	delete(log.Samples, arms[1].Sample(3))
	if left, all := x.Left(log); left != 1 || all != 6 {
		t.Errorf("%d of %d trainings are left, want 1", left, all)
	}
}

// What specs of translators must not say.
func TestMultilingualRefused(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"only: 2", "only: 4", "which is not among the data"},
		{"warm_up: 0.25, evaluations: 2", "warm_up: 0.25, evaluations: 0, patience: 2", "want evaluations"},
		{"warm_up: 0.25, ", "constant: true, ", "want warm_up"},
		{"optimizer: adam}", "optimizer: adam, lr_schedule: constant}", "it follows from warm_up"},
		{"optimizer: adam}", "optimizer: adam, eval_every: 2}", "it follows from evaluations"},
		{"rates: [0.01, 0.02], share: 0.5, widen: 2", "rates: [0.02, 0.01]", "in ascending order"},
		{"rates: [0.01, 0.02]", "rates: [0.01]", "want two rates or more"},
		{"baselines: true\n", "", "unknown name over_dictionary"},
	} {
		testkit.Has(t, multilingual, c.old)
		testkit.Refused(read(t, strings.Replace(multilingual, c.old, c.replacement, 1)))(t, c.want)
	}
	testkit.Refused(read(t, images, "discard: nothing", "discard: nothing\nbaselines: true"))(t, "want data of translators")
}
