package gpipe

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// What captions say of the arms holds: the baseline of consistency-accuracy has one partition and
// one micro-batch, and of consistency-scopes pairs differ in the scope alone, over micro-batches of
// one size.
func TestConsistencyArms(t *testing.T) {
	of := func(id string) *trained.Experiment[struct{}] {
		return labtest.Loaded[*trained.Experiment[struct{}]](t, Paper.Experiment(id).Load)
	}
	accuracy, scopes := of("consistency-accuracy"), of("consistency-scopes")
	for _, name := range lab.Profiles {
		base := accuracy.Spec.Training(accuracy.Spec.Profiles[name], accuracy.Spec.Arms[0], 1).Setup
		if base.Partitions != 1 || base.MicroBatches != 1 {
			t.Errorf("the baseline has K = %d, M = %d", base.Partitions, base.MicroBatches)
		}
		setup := func(arm string) train.Training {
			return scopes.Spec.Training(scopes.Spec.Profiles[name], scopes.Spec.Arms[scopes.Spec.Named(arm)], 1)
		}
		for _, p := range scopes.Spec.Pairs {
			all, each := setup(p.Of), setup(p.To)
			if n := all.Setup.Replicas * all.Setup.MicroBatches; all.Setup.BNScope != gpipe.AllScope || all.Setup.Replicas < 2 || all.Batch%n != 0 {
				t.Errorf("%s, %s: %+v of %d", name, p.Of, all.Setup, all.Batch)
			}
			if all.Setup.BNScope = gpipe.ReplicaScope; !reflect.DeepEqual(all.Setup, each.Setup) {
				t.Errorf("%s: %+v and %+v, want the same but for the scope", p.Label, all.Setup, each.Setup)
			}
		}
	}
}

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
	r, err := training.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	dark := training
	dark.EmptySource, dark.Save = true, ""
	without, err := dark.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Eval.Loss > 0.7*without.Eval.Loss || *r.Eval.BLEU < *without.Eval.BLEU+10 {
		t.Errorf("loss %.3f, BLEU %.1f; without a source %.3f, %.1f", r.Eval.Loss, *r.Eval.BLEU, without.Eval.Loss, *without.Eval.BLEU)
	}
	again := training
	again.Save, again.Load, again.Steps, again.Beam = "", file, 0, 3
	loaded, err := again.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.WeightsSHA256 != r.WeightsSHA256 || loaded.Eval.Loss != r.Eval.Loss {
		t.Errorf("loaded: SHA-256 %s, loss %v; saved %s, %v", loaded.WeightsSHA256, loaded.Eval.Loss, r.WeightsSHA256, r.Eval.Loss)
	}
	if *loaded.Eval.BLEU < *r.Eval.BLEU-5 {
		t.Errorf("beam of 3: BLEU %.1f, greedy %.1f", *loaded.Eval.BLEU, *r.Eval.BLEU)
	}
}

// The networks that are trained in bfloat16 and in float32 differ in nothing else.
func TestPrecisionArms(t *testing.T) {
	x := labtest.Loaded[*trained.Experiment[struct{}]](t, Paper.Experiment("precision").Load)
	for _, name := range lab.Profiles {
		a, b := x.Spec.Training(x.Spec.Profiles[name], x.Spec.Arms[0], 1), x.Spec.Training(x.Spec.Profiles[name], x.Spec.Arms[1], 1)
		if a.Setup.DType.String() != "f32" || b.Setup.DType.String() != "bf16" || !strings.HasPrefix(x.Spec.Arms[1].Label, "bfloat") {
			t.Errorf("%v and %v", a.Setup.DType, b.Setup.DType)
		}
		if b.Setup.DType = a.Setup.DType; !reflect.DeepEqual(a.Setup, b.Setup) || a.Model != b.Model || a.LR != b.LR {
			t.Errorf("%s: %+v and %+v", name, a, b)
		}
	}
}
