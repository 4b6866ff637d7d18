package trained

import (
	"errors"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/train"
	"gpipebench/train/traintest"
)

// Every way to train refuses, before the first step, a last mini-batch that
// leaves batch norm a single value.
func TestShortLastMiniBatch(t *testing.T) {
	training := traintest.TinyImages()
	training.Config.SyntheticImages.Train = 9
	_, trial := Train(t.Context(), training)
	_, run := training.Run(t.Context(), func(train.TrainStep) { t.Error("a step has been made") })
	for _, err := range []error{trial, run} {
		var misfit *gpipe.MisfitError
		if !errors.As(err, &misfit) || !strings.Contains(err.Error(), "the last mini-batch of an epoch, of 1 example, ") {
			t.Errorf("%v: want the last mini-batch refused", err)
		}
	}
	training.Config.SyntheticImages.Train = 8
	if _, err := Train(t.Context(), training); err != nil {
		t.Error(err)
	}
}

// What is trained without sources is trained so by every way to train.
func TestBlindArm(t *testing.T) {
	blind := train.Training{
		Model: train.Model{Name: train.Translator, Layers: 1, Dim: 16, FF: 32, Heads: 2, Seq: 48},
		Data:  "synthetic-translation", Batch: 8, Steps: 3, Seed: 1, Optimizer: "adam", LR: 0.01, LRSchedule: "constant",
		Config: datasets.Config{
			Multilingual: datasets.MultilingualConfig{Languages: 2, Pairs: 100, Nouns: 16}, Translation: datasets.TranslationConfig{HeldOut: 8},
		},
		Setup: train.Setup{Partitions: 1, MicroBatches: 1},
	}
	seeing := blind
	blind.EmptySource = true
	trial := testkit.Must(Train(t.Context(), blind))(t)
	run := testkit.Must(blind.Run(t.Context(), nil))(t)
	if trial.SHA256 != run.WeightsSHA256 || trial.HeldOut != run.Eval.Loss {
		t.Errorf("a trial ends with %s and a held-out loss of %v, train with %s and %v", trial.SHA256, trial.HeldOut, run.WeightsSHA256, run.Eval.Loss)
	}
	if trial, err := Train(t.Context(), seeing); err != nil || trial.SHA256 == run.WeightsSHA256 {
		t.Errorf("%v: want other weights where sources are seen", err)
	}
}

// A spec's training keeps its best weights, normalises and recomputes, as train does; a spec that
// says nothing of it is as before.
func TestNewSettings(t *testing.T) {
	x := mustRead(t, images, "steps: 3", "steps: 3\n      keep: best\n      eval_every: 1\n      recompute_statistics: 8")
	f := &x.Spec.Frame
	got := f.Training(x.Spec.Profiles["smoke"], f.Arms[0], 1)
	if got.Keep != train.KeepBest || got.EvalEvery != 1 || got.RecomputeStatistics != 8 {
		t.Errorf("%+v", got)
	}
	x = mustRead(t, translators, "name: transformer,", "name: transformer, final_norm: true,")
	f = &x.Spec.Frame
	if got := f.Training(x.Spec.Profiles["smoke"], f.Arms[0], 1); !got.Model.FinalNorm {
		t.Errorf("%+v", got.Model)
	}
	training := traintest.TinyTraining()
	training.Steps, training.EvalEvery, training.Keep, training.Config.Synthetic.HeldOut = 4, 2, train.KeepBest, 14
	trial := testkit.Must(Train(t.Context(), training))(t)
	run := testkit.Must(training.Run(t.Context(), nil))(t)
	if trial.SHA256 != run.WeightsSHA256 || trial.HeldOut != run.Eval.Loss || *trial.Best != *run.Best {
		t.Errorf("a trial ends with %+v, train with %s and %v", trial, run.WeightsSHA256, run.Eval)
	}
}
