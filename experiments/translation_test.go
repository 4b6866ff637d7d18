package experiments

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

func TestTranslationMeasures(t *testing.T) {
	e, err := loadTranslation()
	if err != nil {
		t.Fatal(err)
	}
	log := NewLog(e.Key("smoke"))
	if err := e.Measure(context.Background(), log, Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := e.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != nil {
		t.Error(r.Verdict)
	}
	if rows := r.Tables[0].Rows; len(rows) != 4 || rows[3][0] != "all" {
		t.Errorf("rows %v, want three languages and all", rows)
	}
	if n := r.Tables[0].Notes[0]; !strings.Contains(n, "is the same at K = 4") {
		t.Errorf("note %q", n)
	}
	var s translationSample
	if err := log.Get(alone, &s); err != nil {
		t.Fatal(err)
	}
	s.WeightsSHA256 = strings.Repeat("0", 64)
	if err := log.Add(alone, 1, &s); err != nil {
		t.Fatal(err)
	}
	if r, err = e.Report(log, nil); err != nil || r.Verdict == nil {
		t.Errorf("other weights alone: verdict %v, %v", r.Verdict, err)
	}
}

// TestTranslatorLearns a tiny language: it beats a network that sees no source,
// and what is saved is what is loaded.
func TestTranslatorLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for seconds")
	}
	file := filepath.Join(t.TempDir(), "weights")
	training := Training{
		Model: Model{Name: "transformer", Layers: 1, Dim: 32, FF: 64, Heads: 2, Seq: 48, Tied: "all"},
		Data:  "synthetic-translation",
		Setup: Setup{Partitions: 2, MicroBatches: 3}, Batch: 32, Steps: 250, Seed: 3,
		Optimizer: "adam", LR: 0.01, LRSchedule: "inverse-sqrt:40", ClipNorm: 1, Save: file,
	}
	training.Multilingual.Languages, training.Multilingual.Pairs, training.Multilingual.Nouns = 1, 3000, 4
	training.Translation.HeldOut = 32
	r, err := training.Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	dark := training
	dark.EmptySource, dark.Save = true, ""
	without, err := dark.Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Eval.Loss > 0.7*without.Eval.Loss || *r.Eval.BLEU < *without.Eval.BLEU+10 {
		t.Errorf("loss %.3f, BLEU %.1f; without a source %.3f, %.1f", r.Eval.Loss, *r.Eval.BLEU, without.Eval.Loss, *without.Eval.BLEU)
	}
	again := training
	again.Save, again.Load, again.Steps, again.Beam = "", file, 0, 3
	loaded, err := again.Run(context.Background(), nil)
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
