package trained

import (
	"slices"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
)

// aiming has an arm whose evaluations are held against another's loss at the end, and rates of its own.
const aiming = `
experiment: aiming
kind: trained
title: "Steps to a loss"
source: none
discard: nothing
seed: 1
setup: {checkpoint: never, threads: 1}
metric: nats
within: 0.02
arms:
  - {name: goal, target: goal}
  - {name: stale, target: goal, pilots_times: 4, setup: {k: 2, schedule: pipedream, window: 4}}
  - {name: apart}
tables:
  - caption: ["{{.seeds}} seeds"]
    columns:
      - {head: training, is: label}
      - {head: rate, is: rate, as: "%g"}
      - {head: steps to the target's loss, is: updates}
      - {head: runs that come there, is: arrived}
panels: [{draw: each, y: nats}]
profiles:
  smoke: &smoke
    expected: 5s
    pilots: {seeds: [101], rates: [0.001]}
    seeds: [1, 2, 3]
    training: {model: {name: transformer-lm, layers: 1, dim: 8, ff: 8, heads: 2, vocab: 16, seq: 8}, batch: 4, steps: 8, eval_every: 4, optimizer: adam}
    arms: {apart: {steps: 12}}
  quick: *smoke
  full: *smoke
`

// Trainings have their held-out losses on the way, the last of which is that at the end, in windows too; what
// comes within the spec's nats of the target's at its end has arrived, and what never does counts
// ten times its steps.
func TestAiming(t *testing.T) {
	x := mustRead(t, aiming)
	log := records.New(x.Key("smoke"))
	testkit.NoError(t, x.Measure(t.Context(), log, progress.Silent{}))
	var made Trial
	if err := log.Get("stale/lr=0.004/seed2", &made); err != nil || len(made.Along) != 2 || made.Along[1] != made.HeldOut {
		t.Fatalf("%+v, %v", made, err)
	}
	if err := log.Get("apart/lr=0.001/seed2", &made); err != nil || len(made.Along) != 3 || made.Along[2] != made.HeldOut {
		t.Errorf("%+v, %v", made, err)
	}

	log = records.New(x.Key("smoke"))
	along := map[string][][]float64{
		"goal":  {{2, 1}, {1.01, 1}, {2, 1}},
		"stale": {{1.02, 1.03}, {1.5, 1.02}, {1.03, 1.021}},
		"apart": {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
	}
	size := x.Spec.Profiles["smoke"]
	for _, a := range x.Spec.Arms {
		rate := map[string]float64{"goal": 0.001, "stale": 0.004, "apart": 0.001}[a.Name]
		pilot := pilot{Trial: trial(50, 1, 0)}
		add(t, log, x.Spec.arm(size, a, rate).Sample(101), 101, pilot)
		for i, seed := range size.Seeds {
			of := trial(50, 1, 0)
			of.Along = along[a.Name][i]
			of.HeldOut = of.Along[len(of.Along)-1]
			add(t, log, x.Spec.arm(size, a, rate).Sample(seed), seed, of)
		}
	}
	scores, err := x.Scores(log)
	if err != nil || !slices.Equal(scores["goal"]["updates"], []float64{8, 4, 8}) || !slices.Equal(scores["stale"]["updates"], []float64{4, 8, 80}) || scores["apart"]["updates"] != nil {
		t.Errorf("%v, %v", scores, err)
	}
	r := testkit.Must(x.Report(log, log))(t)
	for row, want := range [][]string{{"goal", "0.001", "8", "3 of 3"}, {"stale", "0.004", "8", "2 of 3"}, {"apart", "0.001", "", ""}} {
		testkit.EqualAll(t, r.Tables[0].Printed()[row], want)
	}
	for _, broken := range [][3]string{
		{"within: 0.02\n", "", "want an arm, outcomes, and within"},
		{"target: goal, pilots", "target: none, pilots", "want an arm, outcomes, and within"},
		{"steps: 8, eval_every: 4", "steps: 8", "no eval_every"},
	} {
		testkit.Refused(read(t, aiming, broken[0], broken[1]))(t, broken[2])
	}
}
