package gpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/nn/philox"
)

// What is drawn of a run is what it is judged by.
func TestStabilityPanels(t *testing.T) {
	e := &stability{}
	e.Spec.Diverges = stabilityDivergence{After: 2, Window: 2, Loss: 4.5}
	run := func(heldOut float64, losses ...float64) *stabilityRecord {
		return &stabilityRecord{Losses: losses, GradNorms: losses, HeldOut: heldOut, Probes: []stabilityProbed{{Step: 0, Hidden: 3, Largest: 7}}}
	}
	panels := e.panels([]*stabilityOutcome{
		{stabilityVariant: stabilityVariant{Name: "neither"}, runs: []*stabilityRecord{run(6, 4, 6, 8), run(0, 4)}, diverged: []int{2, 2}},
		{stabilityVariant: stabilityVariant{Name: "both"}, runs: []*stabilityRecord{run(2, 4, 2, 1)}, diverged: []int{0}},
	})
	training, ends := panels[0].(plot.LinePanel), panels[1].(*plot.DotPanel)
	if want := []plot.Point{{X: 1, Y: 4}, {X: 2, Y: 5}, {X: 3, Y: 7}}; !slices.Equal(training.Series[0].Lines[0], want) {
		t.Errorf("losses %v, want means of two: %v", training.Series[0].Lines[0], want)
	}
	if len(training.Levels) != 1 || training.Levels[0].Y != 4.5 || training.Series[1].Name != "both" {
		t.Errorf("%+v", training)
	}
	if want := []string{"neither\n2 of 2", "both\n0 of 1"}; !slices.Equal(ends.Names, want) {
		t.Errorf("%q, want %q", ends.Names, want)
	}
	if want := [][]float64{{6}, {2}}; !reflect.DeepEqual(ends.Groups, want) {
		t.Errorf("held-out losses %v, want %v: a run that ended has none", ends.Groups, want)
	}
}

func TestStabilityKurtosis(t *testing.T) {
	if got := stabilityKurtosis([]float64{-2, 0, 0, 0, 0, 0, 0, 2}); got != 4 { // the mean of fourth powers is 4, of squares 1
		t.Errorf("kurtosis %v, want 4", got)
	}
	random := philox.NewStream(philox.KeyOf(1, "moments"), 0)
	xs := make([]float64, 10000)
	for i := range xs {
		xs[i] = 7 + 3*random.Normal()
	}
	if got := stabilityKurtosis(xs); math.Abs(got-3) > 0.2 {
		t.Errorf("kurtosis of normal values %v, want 3", got)
	}
}

func TestStabilityDivergence(t *testing.T) {
	d := stabilityDivergence{After: 3, Window: 2, Loss: 5}
	for _, c := range []struct {
		losses []float64
		step   int
	}{
		{nil, 0}, {[]float64{9, 9}, 0}, {[]float64{9, 9, 2}, 3}, {[]float64{9, 2, 8, 2}, 0}, {[]float64{9, 1, 1, 8, 4}, 5}, {[]float64{9, 1, 1, 1}, 0},
	} {
		if got := d.at(c.losses); got != c.step {
			t.Errorf("%v: diverges at %d, want %d", c.losses, got, c.step)
		}
	}
}

// A run diverges by its losses, or by a value that is not finite; runs of all seeds count.
func TestStabilityRuns(t *testing.T) {
	s := labtest.Loaded[*stability](t, Paper.Experiment("stability").Load)
	p := s.Spec.Profiles["quick"]
	p.Seeds = append(slices.Clone(p.Seeds), 77)
	s.Spec.Profiles["quick"] = p
	for _, c := range []struct {
		diverge []string // variants
		ended   bool     // by a value that is not finite
	}{
		{[]string{"neither", "scaled init", "clipped logits"}, false},
		{[]string{"neither", "scaled init", "clipped logits"}, true},
		{nil, false},
	} {
		log := records.New(s.Key("quick"))
		for _, v := range s.Spec.Variants {
			for _, seed := range p.Seeds {
				r := &stabilityRecord{Params: 7, Uniform: 4.6, HeldOut: 4}
				for i := range p.Training.Steps {
					loss := 2.0
					for _, name := range c.diverge {
						if name == v.Name {
							loss = 50
						}
					}
					if loss == 50 && c.ended && i == 30 {
						r.NonFinite = "loss of the mini-batch is NaN"
						break
					}
					r.Losses, r.GradNorms = append(r.Losses, loss), append(r.GradNorms, 1)
				}
				r.Probes = []stabilityProbed{{0, 3, 3, 20}, {5, 4, 5, 30}}
				if err := log.Add(v.sample(seed), seed, r); err != nil {
					t.Fatal(err)
				}
			}
		}
		r, err := s.Report(log, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range r.Tables[0].Printed() {
			diverged := 0
			if slices.Contains(c.diverge, s.Spec.Variants[i].Name) {
				diverged = len(p.Seeds)
			}
			if want := fmt.Sprintf("%d of %d", diverged, len(p.Seeds)); row[1] != want {
				t.Errorf("%v diverge: %s: %s, want %s", c.diverge, row[0], row[1], want)
			}
		}
		labtest.CheckPlots(t, r)
	}
}

// TestStabilityMeasures: the smallest profile is measured, and twice the same.
func TestStabilityMeasures(t *testing.T) {
	s := labtest.Loaded[*stability](t, Paper.Experiment("stability").Load)
	log := records.New(s.Key("smoke"))
	if err := s.Measure(context.Background(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Tables[0].Rows); n != len(s.Spec.Variants) {
		t.Errorf("%d rows", n)
	}
	var first stabilityRecord
	if err := log.Get(s.Spec.Variants[3].sample(1), &first); err != nil {
		t.Fatal(err)
	}
	smoke := s.Spec.Profiles["smoke"]
	again, err := smoke.train(context.Background(), s.arms(smoke)[3].Training(1))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprint(first.Losses, first.GradNorms, first.Probes, first.HeldOut), fmt.Sprint(again.Losses, again.GradNorms, again.Probes, again.HeldOut); a != b {
		t.Errorf("two runs differ: %s and %s", a, b)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Measure(cancelled, records.New(s.Key("smoke")), progress.Silent{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A rate may be scheduled in epochs, as in every training.
func TestStabilityInEpochs(t *testing.T) {
	s := labtest.Loaded[*stability](t, Paper.Experiment("stability").Load)
	p := s.Spec.Profiles["smoke"]
	p.Training.LRSchedule = "warmup:0.1epochs,constant"
	s.Spec.Profiles["smoke"], s.Spec.Variants = p, s.Spec.Variants[:1]
	if err := s.Measure(t.Context(), records.New(s.Key("smoke")), progress.Silent{}); err != nil {
		t.Error(err)
	}
}

// Trainings run beside one another, so that devices must not wait for a turn.
func TestStabilityRefusesDevices(t *testing.T) {
	err := labtest.Refused(t, Paper.Experiment("stability"), "device: host", "device: emulated")
	if err == nil || !strings.Contains(err.Error(), ":1: setup: trainings run beside one another: want host devices") {
		t.Error(err)
	}
}
