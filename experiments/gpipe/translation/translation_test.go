package translation

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// Every language has the BLEU of all that translate it, and a network's colour
// is that of its losses.
func TestTranslationPanels(t *testing.T) {
	sample := func(loss float64, bleu ...float64) *record {
		r := &train.Result{Losses: []float64{loss}, Eval: &train.Evaluation{}, Baselines: []train.Baseline{{Name: "copy", Languages: []float64{1, 2}}, {Name: "dictionary", Languages: []float64{3, 4}}}}
		for i, b := range bleu {
			r.Eval.Languages = append(r.Eval.Languages, train.LanguageScore{Name: []string{"high", "low"}[i], BLEU: b})
		}
		return &record{trained.Whole{Result: r}}
	}
	panels := panelsOf(sample(0.5, 90, 80), sample(2.5, 0, 0.5))
	scores, losses := panels[0].(*plot.BarPanel), panels[1].(plot.LinePanel)
	var values [][]float64
	for _, s := range scores.Series {
		values = append(values, s.Values)
	}
	if want := [][]float64{{1, 2}, {3, 4}, {0, 0.5}, {90, 80}}; !reflect.DeepEqual(values, want) || !slices.Equal(scores.Names, []string{"high", "low"}) {
		t.Errorf("%v of %v, want %v", values, scores.Names, want)
	}
	for i, want := range []float64{2.5, 0.5} {
		s := losses.Series[i]
		if s.Name != scores.Series[2+i].Name || s.Lines[0][0].Y != want {
			t.Errorf("losses of %s: %v, want %v of %s", s.Name, s.Lines, want, scores.Series[2+i].Name)
		}
	}
}

func TestTranslationMeasures(t *testing.T) {
	e, err := Definition.Load()
	if err != nil {
		t.Fatal(err)
	}
	log := records.New(e.Key("smoke"))
	if err := e.Measure(context.Background(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := e.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != nil {
		t.Error(r.Verdict)
	}
	if rows := r.Tables[0].Printed(); len(rows) != 4 || rows[3][0] != "all" {
		t.Errorf("rows %v, want three languages and all", rows)
	}
	if n := r.Tables[0].Notes[0]; !strings.Contains(n, "is the same at K = 4") {
		t.Errorf("note %q", n)
	}
	var s record
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
	training := train.Training{
		Model: train.Model{Name: "transformer", Layers: 1, Dim: 32, FF: 64, Heads: 2, Seq: 48, Tied: "all"},
		Data:  "synthetic-translation",
		Setup: train.Setup{Partitions: 2, MicroBatches: 3}, Batch: 32, Steps: 250, Seed: 3,
		Optimizer: "adam", LR: 0.01, LRSchedule: "inverse-sqrt:40", ClipNorm: 1, Save: file,
	}
	training.Config.Multilingual.Languages, training.Config.Multilingual.Pairs, training.Config.Multilingual.Nouns = 1, 3000, 4
	training.Config.Translation.HeldOut = 32
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
