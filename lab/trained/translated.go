package trained

import (
	"fmt"
	"slices"

	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// What whole records of translators have beside others: scores by language, and a few steps that
// another arm repeats.

// translates checks that there are scores of all languages and, of a network that is compared with
// baselines, these.
func (w *wholeSample) translates(compared bool, languages int) error {
	if w.Eval.BLEU == nil || len(w.Eval.Languages) != languages {
		return fmt.Errorf("scores of %d languages, want %d", len(w.Eval.Languages), languages)
	}
	if !compared {
		return nil
	}
	if len(w.Baselines) != 2 || len(w.Baselines[0].Languages) != languages || len(w.Baselines[1].Languages) != languages {
		return fmt.Errorf("want two baselines of %d languages", languages)
	}
	return nil
}

// languages are the scores by language, and those of all as the last.
func (w *wholeSample) languages() []train.LanguageScore {
	all := train.LanguageScore{Name: "all", Share: 1, BLEU: *w.Eval.BLEU, Loss: w.Eval.Loss, Accuracy: w.Eval.Accuracy}
	for _, l := range w.Eval.Languages {
		all.Train += l.Train
	}
	return append(slices.Clone(w.Eval.Languages), all)
}

// repeating are the arms that repeat the first steps of an arm, and end with its weights, if all is well.
func (f *Frame) repeating(a ArmSpec) (all []ArmSpec) {
	for _, o := range f.Arms {
		if o.Repeats == a.Name {
			all = append(all, o)
		}
	}
	return all
}

// repeated says of every arm that repeats another whether it ended with the same weights; if one did
// not, that is also the error.
func (r *Reporting) repeated() (notes []string, err error) {
	for _, a := range r.Results {
		if a.Repeats == "" {
			continue
		}
		of, same := r.Results[r.Named(a.Repeats)], "is the same"
		after, k, own := of.whole.HashAfter, of.Setup.Partitions, a.whole.WeightsSHA256
		if after != own {
			same = "differs"
			err = fmt.Errorf("%s: after %d steps the weights' SHA-256 is %s at K = %d and %s at K = %d: want the same",
				r.Experiment, len(a.whole.Losses), after, k, own, a.Setup.Partitions)
		}
		notes = append(notes,
			fmt.Sprintf("After %d steps the weights' SHA-256 %s at K = %d (%s) and at K = %d (%s).", len(a.whole.Losses), same, k, after[:16], a.Setup.Partitions, own[:16]),
			fmt.Sprintf("Weights at the end: SHA-256 %s.", of.whole.WeightsSHA256[:16]))
	}
	return notes, err
}

// checkTranslated checks an arm's record, as far as a report relies on it.
func (f *Frame) checkTranslated(size Size, r *Result, first bool) error {
	if size.Data != nil && r.Repeats == "" {
		if err := r.whole.translates(first, len(size.Data.Names())); err != nil {
			return err
		}
	}
	if len(f.repeating(r.ArmSpec)) > 0 {
		return records.CheckHash("sha256_after", r.whole.HashAfter)
	}
	return nil
}

// drawLosses draws the training losses of whole records in one panel.
func drawLosses(r *Reporting, p PanelSpec) []plot.Axes {
	out := plot.LinePanel{Title: p.Title, X: "step", Y: p.Y, FromZero: true}
	for _, a := range r.learners() {
		line, _ := plot.Binned(a.whole.Losses, plot.Curve)
		out.Series = append(out.Series, plot.Series{Name: a.label(), Lines: [][]plot.Point{line}})
	}
	return []plot.Axes{out}
}

// learners are the arms that repeat no other, the baseline as the last, which is drawn over the others.
func (r *Reporting) learners() (all []*Result) {
	for _, a := range r.Results[1:] {
		if a.Repeats == "" {
			all = append(all, a)
		}
	}
	return append(all, r.Results[0])
}
