package translation

import (
	"fmt"
	"slices"

	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// translates checks that there are scores of all languages and, of the network that is
// compared with baselines, these and the hash on the way.
func (s *record) translates(compared bool, languages int) error {
	if s.Eval.BLEU == nil || len(s.Eval.Languages) != languages {
		return fmt.Errorf("scores of %d languages, want %d", len(s.Eval.Languages), languages)
	}
	if !compared {
		return nil
	}
	if len(s.Baselines) != 2 || len(s.Baselines[0].Languages) != languages || len(s.Baselines[1].Languages) != languages {
		return fmt.Errorf("want two baselines of %d languages", languages)
	}
	return records.CheckHash("sha256_after", s.HashAfter)
}

func (t *translation) Report(log, reference *records.Log) (*lab.Report, error) {
	profile, err := lab.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	var own, without, check record
	for sample, into := range map[string]*record{seeing: &own, blind: &without, alone: &check} {
		err := log.Get(sample, into)
		if err == nil && sample != alone {
			if err = into.translates(sample == seeing, profile.Data.Languages); err != nil {
				err = log.Strange(sample, err)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	m := profile.Training.Model
	table := &lab.Table{
		ID: "translation", Title: t.Spec.Title,
		Caption: []string{
			fmt.Sprintf("One T(%d, %d, %d) of width %d for all languages, %d parameters, %d steps of %d pairs, through K = %d partitions with M = %d, checkpoint %v, on %v devices. Held out: %d pairs of each language, the same sentences in all.",
				m.Layers, m.FF, m.Heads, m.Dim, own.Params, len(own.Losses), profile.Training.Batch,
				t.setup.Partitions, t.setup.MicroBatches, t.setup.Checkpoint, t.setup.Device, profile.Data.HeldOut),
			fmt.Sprintf("BLEU of greedy translations, and of three baselines. Copy: the source itself. Dictionary: a word-by-word dictionary learned from the same pairs. No source: the same network, trained for %d steps, whose cross-attention has nothing to attend to.", len(without.Losses)),
		},
	}
	table.Texts("language, from high to low resource")
	table.Numbers("training pairs", "share of a batch", "BLEU: copy", "dictionary", "no source", "Transformer", "nats per token", "of no source", "accuracy")
	var beside []train.LanguageScore
	if reference != nil {
		var r record
		if reference.Get(seeing, &r) == nil && r.translates(true, profile.Data.Languages) == nil {
			beside = withAll(&r)
		}
		table.Numbers(lab.ReferenceName(log, reference) + " BLEU")
	}
	dark := withAll(&without)
	for i, l := range withAll(&own) {
		row := []any{l.Name, l.Train, lab.Share(l.Share, 1)}
		for _, b := range own.Baselines {
			row = append(row, lab.Fixed(append(slices.Clone(b.Languages), b.BLEU)[i], 2))
		}
		row = append(row, lab.Fixed(dark[i].BLEU, 2), lab.Fixed(l.BLEU, 2), lab.Fixed(l.Loss, 4), lab.Fixed(dark[i].Loss, 4), lab.Percent(l.Accuracy, 1))
		switch {
		case beside != nil:
			row = append(row, lab.Fixed(beside[i].BLEU, 2))
		case reference != nil:
			row = append(row, "")
		}
		table.Add(row...)
	}
	r := &lab.Report{Tables: []*lab.Table{table}}
	same := "is the same"
	if own.HashAfter != check.WeightsSHA256 {
		same = "differs"
		r.Verdict = fmt.Errorf("translation: after %d steps the weights' SHA-256 is %s at K = %d and %s at K = %d: want the same",
			t.Spec.Alone.Steps, own.HashAfter, t.setup.Partitions, check.WeightsSHA256, t.alone.Partitions)
	}
	table.Notes = append(table.Notes,
		fmt.Sprintf("After %d steps the weights' SHA-256 %s at K = %d (%s) and at K = %d (%s).",
			t.Spec.Alone.Steps, same, t.setup.Partitions, own.HashAfter[:16], t.alone.Partitions, check.WeightsSHA256[:16]),
		fmt.Sprintf("Weights at the end: SHA-256 %s.", own.WeightsSHA256[:16]))
	r.Files, err = plot.Files(t.ID(), t.Spec.Title, panelsOf(&own, &without))
	return r, err
}

// withAll are a sample's scores by language, and those of all as the last.
func withAll(s *record) []train.LanguageScore {
	all := train.LanguageScore{Name: "all", Share: 1, BLEU: *s.Eval.BLEU, Loss: s.Eval.Loss, Accuracy: s.Eval.Accuracy}
	for _, l := range s.Eval.Languages {
		all.Train += l.Train
	}
	return append(slices.Clone(s.Eval.Languages), all)
}

// panelsOf are the BLEU of every language beside that of the baselines, and
// how both networks learned.
func panelsOf(own, without *record) []plot.Axes {
	scores := &plot.BarPanel{Title: "held-out translations", Y: "BLEU"}
	for _, b := range own.Baselines {
		scores.Series = append(scores.Series, plot.BarSeries{Name: b.Name, As: plot.Mark, Values: slices.Clone(b.Languages)})
	}
	const network, dark = "Transformer", "Transformer without source"
	full, none := plot.BarSeries{Name: network, As: plot.Mark}, plot.BarSeries{Name: dark, As: plot.Mark}
	for i, l := range own.Eval.Languages {
		scores.Names = append(scores.Names, l.Name)
		full.Add(l.BLEU)
		none.Add(without.Eval.Languages[i].BLEU)
	}
	scores.Series = append(scores.Series, none, full)
	losses := plot.LinePanel{Title: "training loss", X: "step", Y: "nats per token", FromZero: true}
	for _, s := range []struct {
		name string
		of   *record
	}{{dark, without}, {network, own}} {
		line, _ := plot.Binned(s.of.Losses, plot.Curve)
		losses.Series = append(losses.Series, plot.Series{Name: s.name, Lines: [][]plot.Point{line}})
	}
	return []plot.Axes{scores, losses}
}
