package gpipe

import (
	"math"
	"path/filepath"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/train"
)

// A translator learns a tiny language: it beats a network that sees no source, and what is saved
// is what is loaded.
func TestTranslatorLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for seconds")
	}
	file := filepath.Join(t.TempDir(), "weights")
	training := train.Training{
		Model: train.Model{Name: "transformer", Layers: 1, Dim: 32, FF: 64, Heads: 2, Seq: 48, Tied: "all"},
		Data:  "synthetic-translation",
		Setup: train.Setup{Partitions: 2, MicroBatches: 3}, Batch: 32, Steps: 250, Seed: 3,
		Optimizer: "adam", LR: 0.01, LRSchedule: "inverse-sqrt:40", ClipNorm: 1, Save: file,
	}
	training.Config.Multilingual.Languages, training.Config.Multilingual.Pairs, training.Config.Multilingual.Nouns = 1, 3000, 4
	training.Config.Translation.HeldOut = 32
	r := testkit.Must(training.Run(t.Context(), nil))(t)
	dark := training
	dark.EmptySource, dark.Save = true, ""
	without := testkit.Must(dark.Run(t.Context(), nil))(t)
	if r.Eval.Loss > 0.7*without.Eval.Loss || *r.Eval.BLEU < *without.Eval.BLEU+10 {
		t.Errorf("loss %.3f, BLEU %.1f; without a source %.3f, %.1f", r.Eval.Loss, *r.Eval.BLEU, without.Eval.Loss, *without.Eval.BLEU)
	}
	again := training
	again.Save, again.Load, again.Steps = "", file, 0
	loaded := testkit.Must(again.Run(t.Context(), nil))(t)
	if loaded.WeightsSHA256 != r.WeightsSHA256 || loaded.Eval.Loss != r.Eval.Loss || *loaded.Eval.BLEU != *r.Eval.BLEU {
		t.Errorf("loaded: SHA-256 %s, loss %v; saved %s, %v", loaded.WeightsSHA256, loaded.Eval.Loss, r.WeightsSHA256, r.Eval.Loss)
	}
}

// Elements are counted as they would be by hand, one by one.
func TestLostGradients(t *testing.T) {
	var c lostCounts
	infinite := float32(math.Inf(1))
	for _, e := range [][2]float32{{0, 0}, {0, 1}, {1, 1}, {1, 0}, {1e-3, 0}, {1, infinite}, {1, -infinite}, {1, float32(math.NaN())}, {1e-8, 1e-8}, {1e5, 1e5}, {1e-8, 0}} {
		c.add(e[0], e[1])
	}
	testkit.Equal(t, c, (lostCounts{Zero: 3, Infinite: 3, Float16: 3}))
}

// A training against itself loses nothing, whatever the loss is divided by; of a smaller loss float16
// would lose more.
func TestComparedGradients(t *testing.T) {
	x := labtest.Loaded[*precision](t, Paper.Experiment("precision").Load)
	of := func(arm string) train.Training {
		return x.Spec.Training(x.Spec.Profiles["smoke"], x.Spec.Arms[x.Spec.Named(arm)], 1)
	}
	wide := of("language f32")
	same, err := x.Spec.Own.compare(t.Context(), wide, wide)
	if err != nil || same.Elements == 0 || same.AsIs.Zero+same.AsIs.Infinite+same.Smaller.Zero+same.Smaller.Infinite != 0 {
		t.Errorf("with itself: %v, %+v", err, same)
	}
	if same.Smaller.Float16 <= same.AsIs.Float16 || same.Smaller.Float16 == same.Elements {
		t.Errorf("float16 would lose %d, and of the smaller loss %d, of %d", same.AsIs.Float16, same.Smaller.Float16, same.Elements)
	}
}
