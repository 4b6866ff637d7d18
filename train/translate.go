package train

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"

	"gpipebench/datasets"
	"gpipebench/datasets/baseline"
	"gpipebench/gpipe"
	"gpipebench/internal/files"
	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// LanguageScore is a translator's score on what is held out of one language.
type LanguageScore struct {
	Name     string  `json:"name"`
	Train    int     `json:"train"` // pairs to train on
	HeldOut  int     `json:"held_out"`
	Dropped  int     `json:"dropped,omitempty"` // pairs that are too long to train on
	Share    float64 `json:"share"`             // of an epoch's examples
	Targets  int     `json:"targets"`
	Loss     float64 `json:"loss"` // nats per target
	Accuracy float64 `json:"accuracy"`
	BLEU     float64 `json:"bleu"`
	Brevity  float64 `json:"brevity_penalty"`
	// Nil in records from before there were any.
	ChrF     *float64 `json:"chrf,omitempty"`
	Smoothed *float64 `json:"bleu_smoothed,omitempty"`
	Unended  int      `json:"unended,omitempty"` // translations without an end within the longest length
}

// evaluatePairs is evaluate by language.
func (t *Training) evaluatePairs(ctx context.Context, trainer *gpipe.Trainer, s *datasets.Translation, of part) (*Evaluation, error) {
	var sum tally
	var languages []LanguageScore
	for i, l := range s.Languages() {
		var own tally
		pairs := of.pairs(s, i)
		for _, places := range s.Groups(pairs, t.Batch) {
			if err := own.add(ctx, trainer, t.Padded(t.blind(s.Collate(at(pairs, places))))); err != nil {
				return nil, err
			}
		}
		score := LanguageScore{Name: l.Name, Train: l.Train, HeldOut: len(pairs), Dropped: l.Dropped, Share: l.Share, Targets: own.targets}
		if own.targets > 0 {
			e := own.evaluation()
			score.Loss, score.Accuracy = e.Loss, e.Accuracy
		}
		languages = append(languages, score)
		sum.loss += own.loss
		sum.correct += own.correct
		sum.targets += own.targets
	}
	if sum.targets == 0 {
		return nil, fmt.Errorf("%s: nothing held out to evaluate on", s.Name())
	}
	e := sum.evaluation()
	e.Languages = languages
	return e, nil
}

// at returns the pairs at some places.
func at(pairs []datasets.Pair, places []int) (some []datasets.Pair) {
	for _, i := range places {
		some = append(some, pairs[i])
	}
	return some
}

// translate translates what is held out, with the weights that are in place, adds the
// scores to an evaluation, and writes the translations to a file if there is to be one.
func (t *Training) translate(ctx context.Context, trainer *gpipe.Trainer, s *datasets.Translation, e *Evaluation) error {
	search := transformer.Decoding{MaxLen: s.LongestTarget(), Pad: datasets.Pad, Begin: datasets.Begin, End: datasets.End}
	predict := func(ctx context.Context, each func(int, []nn.Tensor) error, inputs ...nn.Tensor) error {
		return trainer.PredictEach(ctx, each, t.blind(nn.Batch{Inputs: inputs}).Inputs...)
	}
	var all baseline.BLEU
	var allChrF baseline.ChrF
	languages := slices.Clone(e.Languages) // an error leaves the evaluation as it is
	translations := make([][]string, len(languages))
	for i := range languages {
		l := &languages[i]
		var own baseline.BLEU
		var ownChrF baseline.ChrF
		pairs := t.final().pairs(s, i)
		translations[i] = make([]string, len(pairs))
		for _, places := range s.Groups(pairs, t.Batch) {
			b := s.Collate(at(pairs, places))
			found, err := search.Decode(ctx, predict, b.Inputs[0], b.Inputs[1])
			if err != nil {
				return err
			}
			for j, h := range found {
				text := s.Target().Decode(h.Tokens)
				translations[i][places[j]] = text
				own.Add(text, pairs[places[j]].TargetText)
				ownChrF.Add(text, pairs[places[j]].TargetText)
				if !h.Ended {
					l.Unended++
				}
			}
		}
		l.BLEU, l.Brevity = own.Score(), own.BrevityPenalty()
		l.ChrF, l.Smoothed = new(ownChrF.Score()), new(own.Smoothed())
		all.AddAll(own)
		allChrF.AddAll(ownChrF)
	}
	e.BLEU, e.ChrF, e.Smoothed = new(all.Score()), new(allChrF.Score()), new(all.Smoothed())
	e.Languages = languages
	return writeTranslations(t.Translations, s, t.final(), translations)
}

// writeTranslations writes translations of what is held out of each language, in the
// order of its pairs, if there is a name of a file for them.
func writeTranslations(name string, s *datasets.Translation, of part, translations [][]string) error {
	if name == "" {
		return nil
	}
	rows := [][]string{{"language", "source", "reference", "translation"}}
	for i, l := range s.Languages() {
		for j, p := range of.pairs(s, i) {
			rows = append(rows, []string{l.Name, p.SourceText, p.TargetText, translations[i][j]})
		}
	}
	return files.Write(name, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(rows) })
}
