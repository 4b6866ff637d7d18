package experiments

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpipebench/gpipe"
)

// tinyTraining is that of a network of two layers on the synthetic language.
func tinyTraining() Training {
	return Training{
		Model: Model{Name: languageModel, Layers: 2, Dim: 16, FF: 32, Heads: 2, Seq: 8},
		Data:  "synthetic", Batch: 4, Steps: 2, Seed: 1, Optimizer: "adam", LR: 0.01, LRSchedule: "constant",
		Setup: Setup{Partitions: 2, MicroBatches: 2},
	}
}

// tinyImages is that of a ResNet whose last blocks see one pixel an example.
func tinyImages() Training {
	t := tinyTraining()
	t.Model = Model{Name: "resnet50", Width: 4, Image: 32}
	t.Steps, t.Epochs = 0, 1
	t.SyntheticImages.Train, t.SyntheticImages.HeldOut = 8, 8
	return t
}

// Every way to train refuses, before the first step, a last mini-batch that
// leaves batch norm a single value.
func TestShortLastMiniBatch(t *testing.T) {
	training := tinyImages()
	training.SyntheticImages.Train = 9
	_, trial := train(t.Context(), training)
	_, run := training.Run(t.Context(), func(TrainStep) { t.Error("a step has been made") })
	for _, err := range []error{trial, run} {
		var misfit *gpipe.MisfitError
		if !errors.As(err, &misfit) || !strings.Contains(err.Error(), "the last mini-batch of an epoch, of 1 examples") {
			t.Errorf("%v: want the last mini-batch refused", err)
		}
	}
	training.SyntheticImages.Train = 8
	if _, err := train(t.Context(), training); err != nil {
		t.Error(err)
	}
}

// Weights of a network of the same shapes that computes something else are
// refused, those of one that only trains otherwise are not.
func TestLoadOfAnotherNetwork(t *testing.T) {
	amoeba := tinyImages()
	amoeba.Model = Model{Name: amoebaNet, Layers: 3, Filters: 8, Image: 32}
	for _, c := range []struct {
		want     string // "": accepted
		training Training
		change   func(*Training)
	}{
		{"heads 2, and this one has 4", tinyTraining(), func(t *Training) { t.Model.Heads = 4 }},
		{"", tinyTraining(), func(t *Training) { t.Model.Dropout, t.Setup.Partitions, t.Model.Fine = 0.3, 1, true }},
		{"delayed false, and this one has true", amoeba, func(t *Training) { t.Model.Delayed = true }},
		{"", amoeba, func(t *Training) { t.Model.DropPath = 0.2 }},
	} {
		first, second := c.training, c.training
		first.Save = filepath.Join(t.TempDir(), "weights.safetensors")
		saved, err := first.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		second.Load, second.Steps, second.Epochs = first.Save, 0, 0
		c.change(&second)
		loaded, err := second.Run(t.Context(), nil)
		switch {
		case c.want == "" && (err != nil || loaded.WeightsSHA256 != saved.WeightsSHA256):
			t.Errorf("%v: want the weights that were saved", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: want %s", err, c.want)
		}
	}
}

// What is told before the first step changes nothing of the training.
func TestAnnounce(t *testing.T) {
	told := tinyTraining()
	var steps int
	var expected time.Duration
	told.Announce = func(n int, d time.Duration) { steps, expected = n, d }
	r, err := told.Run(t.Context(), func(TrainStep) {
		if steps != 2 || expected <= 0 {
			t.Errorf("%d steps in %v before the first step, want 2 in some time", steps, expected)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	silent, err := tinyTraining().Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.WeightsSHA256 != silent.WeightsSHA256 || r.Eval.Loss != silent.Eval.Loss || fmt.Sprint(r.HighWaterBytes) != fmt.Sprint(silent.HighWaterBytes) {
		t.Errorf("told: %s, %v; else %s, %v", r.WeightsSHA256, r.HighWaterBytes, silent.WeightsSHA256, silent.HighWaterBytes)
	}
}

func TestAbsurdModels(t *testing.T) {
	for _, name := range append(Models(), convNet) {
		for what, change := range map[string]func(m *Model, n int){
			"layers":           func(m *Model, n int) { m.Layers = n },
			"dimensions":       func(m *Model, n int) { m.Dim = n },
			"feed-forward":     func(m *Model, n int) { m.FF = n },
			"heads":            func(m *Model, n int) { m.Heads = n },
			"vocabulary":       func(m *Model, n int) { m.Vocab = n },
			"tokens in an":     func(m *Model, n int) { m.Seq = n },
			"filters":          func(m *Model, n int) { m.Filters = n },
			"stem":             func(m *Model, n int) { m.Width = n },
			"pixels":           func(m *Model, n int) { m.Image = n },
			"channels of an i": func(m *Model, n int) { m.Channels = n },
			"classes":          func(m *Model, n int) { m.Classes = n },
		} {
			for _, n := range []int{1e9, 1e12, 1<<63 - 1} {
				m := Model{Name: name, Layers: 3, Dim: 16, FF: 16, Heads: 2, Vocab: 8, Seq: 8, Filters: 8, Classes: 2}
				change(&m, n)
				_, err := m.Build()
				var usage *UsageError
				if !errors.As(err, &usage) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "want at most") {
					t.Errorf("%s with %d for %s: %v", name, n, what, err)
				}
			}
		}
	}
}
