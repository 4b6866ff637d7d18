package gpipe

import (
	"math"
	"path/filepath"
	"reflect"
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
	x := labtest.Loaded[*precision](t, Paper.Experiment("precision").Load)
	if len(x.Spec.Pairs) != 2 {
		t.Errorf("%d pairs", len(x.Spec.Pairs))
	}
	for _, name := range lab.Profiles {
		for _, pair := range x.Spec.Pairs {
			of := func(arm string) train.Training {
				return x.Spec.Training(x.Spec.Profiles[name], x.Spec.Arms[x.Spec.Named(arm)], 1)
			}
			a, b := of(pair.To), of(pair.Of)
			if a.Setup.DType.String() != "f32" || b.Setup.DType.String() != "bf16" {
				t.Errorf("%v and %v", a.Setup.DType, b.Setup.DType)
			}
			if b.Setup.DType = a.Setup.DType; !reflect.DeepEqual(a, b) {
				t.Errorf("%s: %+v and %+v", name, a, b)
			}
		}
	}
	labtest.CheckRefused(t, Paper.Experiment("precision"), [][3]string{
		{"{of: language bf16, to: language f32", "{of: images f32, to: language f32", "want two arms with activations of different types"},
		{"smaller: 65536", "smaller: 1", "2"},
	})
}

// Elements are counted as they would be by hand, one by one.
func TestLostGradients(t *testing.T) {
	var c lostCounts
	infinite := float32(math.Inf(1))
	for _, e := range [][2]float32{{0, 0}, {0, 1}, {1, 1}, {1, 0}, {1e-3, 0}, {1, infinite}, {1, -infinite}, {1, float32(math.NaN())}, {1e-8, 1e-8}, {1e5, 1e5}, {1e-8, 0}} {
		c.add(e[0], e[1])
	}
	if want := (lostCounts{Zero: 3, Infinite: 3, Float16: 3}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
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

// From scratch a network is trained for as many steps as it is pretrained and fine-tuned together, on
// the same set; fine-tuned ones see every set that is not the pretraining's once.
func TestTransferArms(t *testing.T) {
	x := labtest.Loaded[*trained.Experiment[struct{}]](t, Paper.Experiment("transfer").Load)
	for _, name := range lab.Profiles {
		size := x.Spec.Profiles[name]
		of := func(arm string) train.Training { return x.Spec.Training(size, x.Spec.Arms[x.Spec.Named(arm)], 1) }
		for _, pair := range x.Spec.Pairs {
			tuned, scratch := of(pair.Of), of(pair.To)
			before := of(x.Spec.Arms[x.Spec.Named(pair.Of)].From)
			if scratch.Steps != before.Steps+tuned.Steps || scratch.Data != tuned.Data || scratch.Model != tuned.Model || !reflect.DeepEqual(scratch.Config, tuned.Config) {
				t.Errorf("%s, %s: %+v and %+v", name, pair.Of, tuned, scratch)
			}
		}
		seen := map[[2]string]int{}
		for _, a := range x.Spec.Arms {
			if a.From != "" {
				seen[[2]string{a.From, a.Set}]++
				if own, before := of(a.Name).Model, of(a.From).Model; own.Filters != before.Filters || a.Set == "pretraining" {
					t.Errorf("%s: %v after %v", a.Name, own, before)
				}
			}
		}
		if len(seen) != 6*3 {
			t.Errorf("%d networks on sets: %v", len(seen), seen)
		}
	}
}
