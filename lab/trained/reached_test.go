package trained

import (
	"cmp"
	"slices"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// racing has trainings that end at an accuracy.
const racing = `
experiment: racing
kind: trained
title: "Epochs to an accuracy"
source: none
discard: nothing
seed: 1
setup: {checkpoint: never, threads: 1}
micro_batch: 16
metric: epochs
arms:
  - {name: large}
  - {name: small, training: {batch: 16, steps: 12}}
tables:
  - caption: ["{{.seeds}} seeds, pilots {{.pilots}}"]
    columns:
      - {head: training, is: label}
      - {head: mini-batch, is: batch}
      - {head: rate, is: rate, as: "%g"}
      - {head: rate at an end, is: at_edge}
      - {head: reached, is: reached}
      - {head: epochs, is: epochs}
      - {head: sd, is: sd(metric), as: "%.2f"}
      - {head: difference, is: difference}
      - {head: "pilots: loss by rate", is: pilots}
panels: [{draw: each, y: epochs}]
profiles:
  smoke: &smoke
    expected: 5s
    pilots: {seeds: [101], rates: [0.1, 0.2, 0.4]}
    seeds: [1, 2, 3]
    until: 40
    training: {model: {name: resnet50, width: 4, image: 16, classes: 4, zero_init: true}, images: {train: 64, held_out: 32}, batch: 32, steps: 6, optimizer: "lars:momentum=0.9:trust=0.1"}
  quick: *smoke
  full: *smoke
`

// ran is a made-up training that reaches the accuracy after a number of 6 epochs; 0: not.
func ran(epochs int) *Trial {
	r := trial(50, 1, 0)
	r.Reached = &Reached{Epochs: epochs, Of: 6, Accuracies: slices.Repeat([]float64{0.3}, cmp.Or(epochs, 6))}
	return r
}

// The rate whose pilots need the fewest epochs is chosen; one that does not reach the accuracy is
// behind all that do. What has not reached it counts with its schedule, and a sign says so.
func TestRacing(t *testing.T) {
	x := mustRead(t, racing)
	size := x.Spec.Profiles["smoke"]
	log := records.New(x.Key("smoke"))
	pilots := map[string][]int{"large": {5, 3, 0}, "small": {0, 0, 2}}
	runs := map[string][]int{"large": {3, 4, 0}, "small": {2, 2, 2}}
	for _, a := range x.Spec.Arms {
		for i, of := range x.Spec.grid(size, a, size.Pilots.Rates) {
			add(t, log, of.Sample(101), 101, pilot{Trial: ran(pilots[a.Name][i])})
		}
		rate := map[string]float64{"large": 0.2, "small": 0.4}[a.Name]
		for i, seed := range size.Seeds {
			add(t, log, x.Spec.arm(size, a, rate).Sample(seed), seed, ran(runs[a.Name][i]))
		}
	}
	r := testkit.Must(x.Report(log, log))(t)
	labtest.CheckPlots(t, r)
	for row, want := range [][]string{{"large", "32", "0.2", "no", "2 of 3", "> 4.3"}, {"small", "16", "0.4", "yes", "3 of 3", "2.0"}} {
		if got := r.Tables[0].Printed()[row]; !slices.Equal(got[:6], want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := r.Tables[0].Printed()[0]; got[len(got)-1] != "0.1: 5.0, 0.2: 3.0, 0.4: -" {
		t.Errorf("pilots %q", got)
	}
	scores, err := x.Scores(log)
	if err != nil || !slices.Equal(scores["large"]["epochs"], []float64{3, 4, 6}) {
		t.Errorf("%v, %v", scores, err)
	}
	testkit.Refused(read(t, racing, "    until: 40\n", ""))(t, "want an accuracy, until which")
	testkit.Refused(read(t, racing, "batch: 16, steps: 12", "batch: 24, steps: 12"))(t, "mini-batches of 24 in micro-batches of 16")
}

// A training ends with the first epoch whose evaluation is accurate enough, as one that goes
// on to its end shows; with another accuracy it has other epochs, and the same bits up to
// there.
func TestUntil(t *testing.T) {
	x := mustRead(t, racing)
	tr := x.Spec.arm(x.Spec.Profiles["smoke"], x.Spec.Arms[0], 0.2).Training(1)
	testkit.Equal(t, tr.Setup.MicroBatches, 2, "micro-batches of a mini-batch")
	whole := testkit.Must(tr.Run(t.Context(), nil))(t)
	var want []float64
	for _, v := range append(whole.Evals, *whole.Eval) {
		want = append(want, v.Accuracy)
	}
	most := slices.Max(want)
	first := slices.Index(want, most)
	r, err := Until(t.Context(), tr, 100*most)
	if err != nil || r.Reached.Epochs != first+1 || !slices.Equal(r.Reached.Accuracies, want[:first+1]) || r.Check() != nil || r.Accuracy != most {
		t.Errorf("%v, %+v, want %v up to epoch %d", err, r.Reached, want, first+1)
	}
	r, err = Until(t.Context(), tr, 100*most+0.1)
	if err != nil || r.Reached.Epochs != 0 || r.Reached.Of != 3 || !slices.Equal(r.Reached.Accuracies, want) || r.SHA256 != whole.WeightsSHA256 || r.Check() != nil {
		t.Errorf("%v, %+v, want %v without end", err, r.Reached, want)
	}
	// What diverges has not reached it, and is no error.
	tr.Optimizer, tr.LR = "sgd", 1e30
	if r, err = Until(t.Context(), tr, 100*most+0.1); err != nil || r.Reached.NonFinite == "" || r.HeldOut == 0 || r.Reached.Epochs != 0 || r.Check() != nil {
		t.Errorf("%v, %+v, want one that diverges", err, r.Reached)
	}
	if cost := r.Reached.cost(); cost < 29 {
		t.Errorf("it costs %v, want more than any that reaches the accuracy", cost)
	}
}

// The profile is measured, and once more, when nothing is left to do.
func TestRacingMeasures(t *testing.T) {
	x := mustRead(t, racing, "rates: [0.1, 0.2, 0.4]", "rates: [0.2]", "seeds: [1, 2, 3]", "seeds: [1, 2]")
	log := records.New(x.Key("smoke"))
	for range 2 {
		if err := x.Measure(t.Context(), log, progress.Silent{}); err != nil || len(log.Names) != 2+4 {
			t.Fatalf("%v, %d samples", err, len(log.Names))
		}
	}
	if _, err := x.Report(log, nil); err != nil {
		t.Error(err)
	}
}
