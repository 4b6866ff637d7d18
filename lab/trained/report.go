package trained

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// Reporting is what a report is made of.
type Reporting struct {
	*Frame
	Size    Size
	Results []*Result       // by arm
	Without withoutNetworks // if the spec asks for baselines
	Samples any             // the experiment's own

	sets map[string]*setContents

	name      string       // of the reference's columns; "": there is none
	log       *records.Log // the reference's
	reference *Reporting   // nil if it is of another spec
}

// Row is what a row of a table is computed from.
type Row struct {
	Own, Base *Result // an arm, and what it is compared with; the baseline is its own base
	Nth       int     // of the rows of its arm
	Label     string  // of a pair
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
	if reference != nil {
		r.name, r.log = lab.ReferenceName(log, reference), reference
		if size, ok := f.Profiles[reference.Key.Profile]; ok {
			if r.reference, err = x.open(size, reference); err != nil {
				r.reference = nil
			}
		}
	}
	words, panels := x.words(), x.panels()
	report := &lab.Report{}
	for _, t := range x.Spec.Tables {
		report.Tables = append(report.Tables, r.table(t, words))
	}
	var axes []plot.Axes
	for _, p := range x.Spec.Plot {
		axes = append(axes, panels[p.Draw](r, p)...)
	}
	_, report.Verdict = r.repeated()
	n := ""
	if len(size.Seeds) > 0 {
		n = lab.N(len(size.Seeds), "seed")
	}
	report.Files, err = plot.Figure(x, n, report.Tables, axes)
	return report, err
}

// open reads what a log has.
func (x *Experiment[Own]) open(size Size, log *records.Log) (*Reporting, error) {
	r := &Reporting{Frame: &x.Spec.Frame, Size: size}
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
		if !f.Whole && metrics[f.Metric](r.Trials) == nil {
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

// Scores are accuracy in percent, held-out loss in nats, of arms with a target the steps to its loss (updates)
// and, of translators, BLEU, chrF and smoothed
// BLEU; the last two where records have them. Of those that see several languages there are also the
// nats and the BLEU of each, by its number from 1; of a dictionary and of copies, BLEU.
func (x *Experiment[Own]) Scores(log *records.Log) (lab.Scores, error) {
	f := &x.Spec.Frame
	size, err := f.atLook(log)
	if err != nil {
		return nil, err
	}
	all, err := f.read(size, log)
	if err != nil {
		return nil, err
	}
	without, err := f.readBaselines(size, log)
	if err != nil {
		return nil, err
	}
	scores := lab.Scores{}
	for _, r := range all {
		name := r.ArmSpec.Name
		scores.Put(name, "accuracy", r.Accuracies())
		scores.Put(name, "held-out", r.heldOut())
		if epochs := r.epochs(); epochs != nil {
			scores.Put(name, "epochs", epochs)
		}
		if updates := f.updates(r, all); updates != nil {
			scores.Put(name, "updates", updates)
		}
		if size.Data == nil || f.Whole {
			continue
		}
		for statistic, of := range watched {
			if values := r.seen(of); values != nil {
				scores.Put(name, statistic, values)
			}
		}
		scores.Put(name, "BLEU", r.bleu())
		for statistic, values := range map[string][]float64{"chrF": r.chrF(), "smoothed BLEU": r.smoothed()} {
			if values != nil {
				scores.Put(name, statistic, values)
			}
		}
		for i := range size.Data.Names() {
			if r.Only == 0 {
				scores.Put(name, fmt.Sprintf("nats, %d", i+1), r.ofLanguage(i, nats))
				scores.Put(name, fmt.Sprintf("BLEU, %d", i+1), r.ofLanguage(i, bleu))
			}
		}
	}
	if f.Baselines {
		scores.Put("dictionary", "BLEU", without.bleu(0, dictionaryOf))
		scores.Put("copy", "BLEU", without.bleu(0, copyOf))
	}
	return scores, nil
}

func (x *Experiment[Own]) words() map[string]Word {
	all := maps.Clone(words)
	maps.Copy(all, x.Words)
	return all
}

func (x *Experiment[Own]) panels() map[string]Panel {
	all := maps.Clone(panels)
	maps.Copy(all, x.Panels)
	return all
}

// rowsOf says how a table's rows follow from the arms.
type rowsOf struct {
	whole bool // of whole records
	of    func(r *Reporting) []Row
}

// each has as many rows for an arm as count says.
func each(count func(*Reporting, *Result) int) func(*Reporting) []Row {
	return func(r *Reporting) (all []Row) {
		for _, a := range r.Results {
			for n := range count(r, a) {
				all = append(all, Row{Own: a, Base: r.Results[0], Nth: n})
			}
		}
		return all
	}
}

var rows = map[string]rowsOf{
	"arms":       {false, each(func(*Reporting, *Result) int { return 1 })},
	"yardsticks": {true, each(func(_ *Reporting, a *Result) int { return len(a.whole.Yardsticks) })},
	"languages": {true, func(r *Reporting) (all []Row) { // of the baseline
		for n := range r.Results[0].whole.languages() {
			all = append(all, Row{Own: r.Results[0], Base: r.Results[0], Nth: n})
		}
		return all
	}},
	"by-language": {false, func(r *Reporting) (all []Row) {
		for n := range r.Size.Data.Names() {
			all = append(all, Row{Own: r.Results[0], Base: r.Results[0], Nth: n})
		}
		return all
	}},
	"pairs": {false, func(r *Reporting) (all []Row) {
		for _, p := range r.Pairs {
			all = append(all, Row{Own: r.Results[r.Named(p.Of)], Base: r.Results[r.Named(p.To)], Label: p.Label})
		}
		return all
	}},
}

func (r *Reporting) rows(kind string) []Row { return rows[cmp.Or(kind, "arms")].of(r) }

// table makes a table.
func (r *Reporting) table(t TableSpec, words map[string]Word) *lab.Table {
	out := &lab.Table{ID: t.ID, Title: cmp.Or(t.Title, r.Title)}
	for _, s := range t.Caption {
		out.Caption = append(out.Caption, r.filled(s))
	}
	var columns []Column
	for _, c := range t.Columns {
		if c.Reference && r.name == "" {
			continue
		}
		columns = append(columns, c)
		head := r.filled(cmp.Or(c.Head, words[c.Is].Head))
		if words[c.Is].Left {
			out.Texts(head)
		} else {
			out.Numbers(head)
		}
	}
	for i, row := range r.rows(t.Rows) {
		var cells []any
		for _, c := range columns {
			cell, from, at := any(nil), r, row
			if c.Reference {
				from, at = r.reference, Row{}
				if from != nil && i < len(from.rows(t.Rows)) {
					at = from.rows(t.Rows)[i]
				}
			}
			if at.Own != nil && !(c.Once && at.Nth > 0) {
				if c.Of != "" {
					at.Own = from.Results[r.Named(c.Of)]
				}
				cell = words[c.Is].Cell(from, at)
			}
			if cell == nil {
				cell = c.First
			}
			cells = append(cells, cell)
		}
		out.Add(cells...)
	}
	for _, n := range t.Notes {
		out.Notes = append(out.Notes, notes[n](r)...)
	}
	return out
}

// notes are what can stand below a table.
var notes = map[string]func(*Reporting) []string{
	"seeds": func(r *Reporting) []string { return lab.FewSeedsNote(len(r.Size.Seeds)) },
	"repeated": func(r *Reporting) []string {
		notes, _ := r.repeated()
		return notes
	},
	"reference": func(r *Reporting) []string {
		if r.log == nil {
			return nil
		}
		return []string{lab.ReferenceNote(r.log)}
	},
}

// compare compares an arm with its base.
func (r *Reporting) compare(row Row) Comparison {
	of := metrics[r.Metric]
	return Compare(of(row.Own.Trials), of(row.Base.Trials), r.Margin)
}

// metrics are what arms are compared by, of each seed.
var metrics = map[string]func(Trials) []float64{
	"":              Trials.Accuracies,
	"accuracy":      Trials.Accuracies,
	"BLEU":          Trials.bleu,
	"chrF":          Trials.chrF,
	"smoothed BLEU": Trials.smoothed,
	"nats":          Trials.heldOut,
	"epochs":        Trials.epochs,
}

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

// filled is a text with figures for the words in its braces.
func (r *Reporting) filled(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	var pairs []string
	for word, figure := range placeholders(r) {
		pairs = append(pairs, "{"+word+"}", figure)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// placeholders are the figures that texts may have: of the base training, which is the first arm's.
func placeholders(r *Reporting) map[string]string {
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
		"seeds": say(len(r.Size.Seeds)), "pilots": say(r.Size.Pilots.Seeds), "held out": say(targets), "data": sentences(r.Size.Data),
		"language": sentences(r.Size.Data), "rate": fmt.Sprintf("%g", t.LR), "examples": units.FormatCommas(int64(t.Steps * t.Batch)),
		"recomputed": units.FormatCommas(int64(t.RecomputeStatistics)),
		"margin":     fmt.Sprintf("%g", r.Margin), "level": fmt.Sprintf("%g%%", 100*r.Level), "reference": r.name, "held-out pairs": say(heldOut),
	}
	if r.Size.Data != nil && r.Size.Data.Invented != nil {
		figures["language"] = "one invented language"
	}
	for _, a := range r.Arms {
		figures["steps of "+a.Name] = say(r.Frame.Training(r.Size, a, r.Seed).Steps)
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
