package trained

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/train"
)

// Reporting is what a report is made of.
type Reporting struct {
	*Frame
	Size    Size
	Results []*Result       // by arm
	Without withoutNetworks // if the spec asks for baselines
	Samples any             // the experiment's own

	sets      map[string]*setContents
	own       func(*Reporting, Row) shown.Values // the experiment's own; nil: none
	reference *Reporting                         // nil: none is shown
	beside    string                             // the note of a reference that is shown
}

// Report makes the tables and the plot that the spec describes.
func (x *Experiment[Own]) Report(log, reference *records.Log) (*lab.Report, error) {
	f := &x.Spec.Frame
	size, err := f.atLook(log)
	if err != nil {
		return nil, err
	}
	r, err := x.open(size, log)
	if err != nil {
		return nil, err
	}
	from := shown.Showing{ID: x.ID(), Title: x.Title()}
	if reference != nil {
		if size, ok := f.Profiles[reference.Key.Profile]; ok {
			if of, err := x.open(size, reference); err == nil { // one of another spec is not shown
				r.reference, from.Reference, r.beside = of, lab.ReferenceName(log, reference), lab.ReferenceNote(reference)
			}
		}
	}
	from.Data, from.Rows = r.figures(), r.rows()
	var axes []plot.Axes
	for _, p := range f.Panels {
		axes = append(axes, panels[p.Draw].draw(r, p)...)
	}
	n := ""
	if len(size.Seeds) > 0 {
		n = lab.N(len(size.Seeds), "seed")
	}
	report, err := f.Spec.Report(x, n, from, axes...)
	if err != nil {
		return nil, err
	}
	notes, verdict := r.repeated()
	for _, a := range r.Results {
		for _, run := range a.Runs {
			if run.NonFinite != "" {
				notes = append(notes, fmt.Sprintf("A training of %s ended at step %d with a value that is not finite; it counts as guessing at random.", a.label(), run.Ended))
			}
		}
	}
	report.Tables[0].Notes, report.Verdict = append(report.Tables[0].Notes, notes...), verdict
	return report, nil
}

// open reads what a log has.
func (x *Experiment[Own]) open(size Size, log *records.Log) (*Reporting, error) {
	r := &Reporting{Frame: &x.Spec.Frame, Size: size, own: x.Values}
	var err error
	if r.sets, err = r.contents(size, log); err != nil {
		return nil, err
	}
	if r.Without, err = r.readBaselines(size, log); err != nil {
		return nil, err
	}
	if r.Results, err = r.read(size, log); err == nil && x.Samples != nil {
		r.Samples, err = x.Samples(size, log)
	}
	return r, err
}

// atLook is a log's profile with the seeds at which its trainings are read: if the log lacks some, those
// of the last look of the design that is complete.
func (f *Frame) atLook(log *records.Log) (Size, error) {
	size, err := lab.ProfileOf(f.Profiles, log.Key.Profile)
	if err != nil || f.Design == nil {
		return size, err
	}
	arms, err := f.chosen(size, log)
	if err != nil {
		return size, err
	}
	for _, seeds := range slices.Backward(f.Design.Looks[log.Key.Profile]) {
		if len(lacking(log, arms, size.Seeds[:seeds])) == 0 {
			size.Seeds = size.Seeds[:seeds]
			break
		}
	}
	return size, nil
}

// read reads what came of the arms.
func (f *Frame) read(size Size, log *records.Log) (all []*Result, err error) {
	arms, err := f.chosen(size, log)
	if err != nil {
		return nil, err
	}
	trials := make([]Trials, len(arms))
	if !f.Whole {
		if trials, err = Read(log, arms, size.Seeds); err != nil {
			return nil, err
		}
	}
	for i, a := range f.Arms {
		r := &Result{ArmSpec: a, Trials: trials[i], Setup: arms[i].Training(f.Seed).Setup}
		r.Arm = arms[i]
		if !f.Whole && size.Data != nil {
			if err := r.checkLanguages(size); err != nil {
				return nil, log.Strange(a.Name, err)
			}
		}
		if !f.Whole && f.metric(r) == nil {
			return nil, log.Strange(a.Name, fmt.Errorf("no %s, which these records are from before: want --fresh", f.Metric))
		}
		if f.Whole {
			r.whole = &wholeSample{}
			if err := log.Get(a.Name, r.whole); err != nil {
				return nil, err
			}
			if err := f.checkTranslated(size, r, i == 0); err != nil {
				return nil, log.Strange(a.Name, err)
			}
		} else if r.Rates, r.Pilots, err = f.piloted(size, a, log); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// label is the arm's name in tables.
func (r *Result) label() string { return cmp.Or(r.Label, r.ArmSpec.Name) }

// Scores have what [Reporting.scores] has, as far as records give it. Of arms that see several languages there are also the
// nats and the BLEU of each, by its number from 1; of a dictionary and of copies, BLEU.
func (x *Experiment[Own]) Scores(log *records.Log) (lab.Scores, error) {
	f := &x.Spec.Frame
	size, err := f.atLook(log)
	if err != nil {
		return nil, err
	}
	r, err := x.open(size, log)
	if err != nil {
		return nil, err
	}
	scores := lab.Scores{}
	for _, a := range r.Results {
		name := a.ArmSpec.Name
		for statistic, values := range r.scores(a) {
			if values != nil {
				scores.Put(name, statistic, values)
			}
		}
		if size.Data == nil || f.Whole || a.Only > 0 {
			continue
		}
		for i := range size.Data.Names() {
			scores.Put(name, fmt.Sprintf("nats, %d", i+1), a.ofLanguage(i, nats))
			scores.Put(name, fmt.Sprintf("BLEU, %d", i+1), a.ofLanguage(i, bleu))
		}
	}
	if f.Baselines {
		scores.Put("dictionary", "BLEU", r.Without.bleu(0, dictionaryOf))
		scores.Put("copy", "BLEU", r.Without.bleu(0, copyOf))
	}
	return scores, nil
}

// scores are an arm's by seed: accuracy in percent, held-out loss in nats, training loss in nats at the end, the steps
// that were made, epochs to an accuracy (epochs), of arms with a target the steps to its loss (updates) and, of
// translators, BLEU, chrF and smoothed BLEU, and what was seen of those that are watched. Nil: records have none.
func (r *Reporting) scores(a *Result) map[string][]float64 {
	all := a.scores()
	all["updates"] = r.updates(a, r.Results)
	return all
}

// scores are those that an arm has by itself.
func (t Trials) scores() map[string][]float64 {
	all := map[string][]float64{"accuracy": t.Accuracies(), "held-out": t.heldOut(), "epochs": t.epochs(), "training loss": t.endOf(), "steps made": t.made()}
	if len(t.Runs) > 0 && len(t.Runs[0].Languages) > 0 {
		all["BLEU"] = t.overLanguages(func(l train.LanguageScore) *float64 { return &l.BLEU })
		all["chrF"] = t.overLanguages(func(l train.LanguageScore) *float64 { return l.ChrF })
		all["smoothed BLEU"] = t.overLanguages(func(l train.LanguageScore) *float64 { return l.Smoothed })
	}
	for name, of := range watched {
		if values := t.seen(of); values != nil {
			all[name] = values
		}
	}
	return all
}

// compare compares an arm with its base.
func (r *Reporting) compare(row Row) Comparison {
	return Compare(r.metric(row.Own), r.metric(row.Base), r.Margin)
}

// metrics are the scores by which arms may be compared.
var metrics = map[string]string{
	"": "accuracy", "accuracy": "accuracy", "BLEU": "BLEU", "chrF": "chrF", "smoothed BLEU": "smoothed BLEU", "nats": "held-out", "epochs": "epochs",
}

// metric is an arm's score by which it is compared.
func (f *Frame) metric(a *Result) []float64 { return a.scores()[metrics[f.Metric]] }

// unit returns the unit of the metric's differences.
func (r *Reporting) unit() string {
	if ofTranslators(r.Metric) || r.Metric == "nats" || r.Metric == "epochs" {
		return r.Metric
	}
	return "points"
}

// ofTranslators reports whether only translators have a metric.
func ofTranslators(metric string) bool {
	return !slices.Contains([]string{"", "accuracy", "nats", "epochs"}, metric)
}

// figures are what templates of captions have: of the base training, which is the first arm's.
func (r *Reporting) figures() map[string]string {
	t := r.Frame.Training(r.Size, r.Arms[0], r.Seed)
	first := r.Results[0]
	params, targets := int64(0), 0
	if first.whole != nil {
		params = first.whole.Params
	} else {
		params, targets = first.Runs[0].Params, first.Runs[0].Targets
	}
	heldOut := 0
	if r.Size.Data != nil {
		heldOut = r.Size.Data.HeldOut
	}
	say := func(x any) string { return fmt.Sprint(x) }
	figures := map[string]string{
		"model": say(t.Model), "layers": say(t.Model.Layers), "ff": say(t.Model.FF), "heads": say(t.Model.Heads), "dim": say(t.Model.Dim),
		"parameters": say(params), "steps": say(t.Steps), "batch": say(t.Batch), "optimizer": t.Optimizer,
		"K": say(t.Setup.Partitions), "M": say(t.Setup.MicroBatches), "R": say(max(t.Setup.Replicas, 1)),
		"checkpoint": say(t.Setup.Checkpoint), "device": say(t.Setup.Device),
		"seeds": say(len(r.Size.Seeds)), "pilots": say(r.Size.Pilots.Seeds), "held_out": say(targets), "data": sentences(r.Size.Data),
		"language": sentences(r.Size.Data), "rate": fmt.Sprintf("%g", t.LR), "examples": units.FormatCommas(int64(t.Steps * t.Batch)),
		"recomputed": units.FormatCommas(int64(t.RecomputeStatistics)),
		"margin":     fmt.Sprintf("%g", r.Margin), "level": fmt.Sprintf("%g%%", 100*r.Level), "held_out_pairs": say(heldOut),
	}
	if r.Size.Data != nil && r.Size.Data.Invented != nil {
		figures["language"] = "one invented language"
	}
	for _, a := range r.Arms {
		figures["steps_of_"+shown.Word(a.Name)] = say(r.Frame.Training(r.Size, a, r.Seed).Steps)
	}
	return figures
}

// sentences says what is translated.
func sentences(s *lab.SentencesSpec) string {
	switch {
	case s == nil:
		return ""
	case s.Invented != nil:
		return fmt.Sprintf("%d pairs of the invented language", s.Invented.Pairs)
	}
	return strings.Join(s.Languages, ", ") + " to English, sentences of programs (gettext catalogs)"
}
