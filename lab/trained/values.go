package trained

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/train"
)

// Row is what a row of a table is of.
type Row struct {
	Own, Base *Result // an arm, and what it is compared with; the baseline is its own base
	Label     string  // of a pair
}

// arms are a row for each arm, and pairs one for each pair.
func (r *Reporting) arms() (all []Row) {
	for _, a := range r.Results {
		all = append(all, Row{Own: a, Base: r.Results[0]})
	}
	return all
}

func (r *Reporting) pairs() (all []Row) {
	for _, p := range r.Pairs {
		all = append(all, Row{r.Results[r.Named(p.Of)], r.Results[r.Named(p.To)], p.Label})
	}
	return all
}

// rows are the rows of tables, by name; "": arms. Beside their own values they have those of the reference.
func (r *Reporting) rows() shown.Rows {
	all, base := shown.Rows{}, Row{Own: r.Results[0], Base: r.Results[0]}
	add := func(name string, at Row, more shown.Values) {
		v := r.values(at)
		maps.Copy(v, more)
		if r.own != nil {
			maps.Copy(v, r.own(r, at))
		}
		all[name] = append(all[name], v)
	}
	for _, at := range r.arms() {
		if !r.Whole {
			add("", at, nil)
			continue
		}
		for n := range at.Own.whole.Yardsticks {
			add("yardsticks", at, at.Own.heldAgainst(n))
		}
	}
	for _, at := range r.pairs() {
		add("pairs", at, nil)
	}
	if r.Size.Data != nil && r.Whole {
		for n, l := range base.Own.whole.languages() {
			add("languages", base, r.scoredIn(n, l))
		}
	} else if r.Size.Data != nil && base.Own.Only == 0 {
		for n, name := range r.Size.Data.Names() {
			add("by-language", base, r.seenIn(n, name))
		}
	}
	if r.reference != nil {
		before := r.reference.rows()
		for name, rows := range all {
			for i, row := range rows {
				for of, own := range maps.Clone(row) {
					row["before_"+of] = missing(own)
					if i < len(before[name]) {
						row["before_"+of] = before[name][i][of]
					}
				}
			}
		}
	}
	return all
}

// missing is in place of a value that is not there.
func missing(of any) any {
	if _, is := of.([]float64); is {
		return []float64(nil)
	}
	return lab.Absent
}

// values are what expressions know of a row. What records lack is nil or Absent; what is compared with itself has
// an empty text.
func (r *Reporting) values(at Row) shown.Values {
	a, t := at.Own, at.Own.Arm.Training(1)
	replicas := max(a.Setup.Replicas, 1)
	sizes := gpipe.MicroBatchSizes(t.Batch/replicas, a.Setup.MicroBatches)
	statistics, micro := sizes[0], fmt.Sprint(sizes[0]) // of as many examples batch norm has statistics; both sizes if there are two
	if a.Setup.BNScope == gpipe.AllScope {
		statistics *= replicas
	}
	if last := sizes[len(sizes)-1]; last != sizes[0] {
		micro = fmt.Sprintf("%d or %s", last, micro)
	}
	v := shown.Values{
		"label": a.label(), "pair": at.Label, "paper": lab.Figure(a.Paper), "compared": at.Own != at.Base,
		"K": a.Setup.Partitions, "M": a.Setup.MicroBatches, "bn_scope": fmt.Sprint(a.Setup.BNScope),
		"micro_batch": sizes[0], "micro_batches": micro, "statistics": statistics,
		"parameters": a.params(), "base_parameters": at.Base.params(), "rate": t.LR, "batch": t.Batch, "steps": t.Steps,
		"shape":     lab.Value{Text: fmt.Sprintf("T(%d, %d, %d)", t.Model.Layers, t.Model.FF, t.Model.Heads)},
		"reference": r.beside, "few_seeds": strings.Join(lab.FewSeedsNote(len(r.Size.Seeds)), ""),
	}
	if r.Whole {
		return v
	}
	for name, of := range r.scores(a) {
		v[shown.Word(name)] = of
	}
	r.outcomes(v, a)
	r.compared(v, at)
	if c := r.sets[a.Set]; c != nil {
		maps.Copy(v, shown.Values{
			"set": a.Set, "set_train": c.Train, "set_held_out": c.HeldOut, "set_classes": c.Classes, "majority": c.Majority,
			"beats_majority": beatsMajority(a, c),
		})
	}
	return v
}

// outcomes adds what came of an arm's trainings beside its scores.
func (r *Reporting) outcomes(v shown.Values, a *Result) {
	v["metric"], v["pilots"], v["at_edge"] = r.metric(a), r.pilotsCell(a).Text, a.atEdge()
	if r.Size.Until > 0 {
		v["epochs"], v["reached"] = a.epochsCell(), lab.Joined("%v of %v", a.reached(), len(a.Runs))
	}
	if r.Within > 0 {
		v["updates"], v["arrived"] = r.updatesCells(a)
	}
	if r.Watch != nil {
		v["collapses"], v["onset"] = a.collapses()
	}
	if r.Size.Data != nil && r.Results[0].Only == 0 {
		v["exposure"] = r.exposure(a)
	}
	if r.Baselines {
		v["over_dictionary"] = lab.Paired(stats.Pairs(a.scores()["BLEU"], r.Without.bleu(a.Only, dictionaryOf)), 2)
	}
}

// compared adds comparisons with the base.
func (r *Reporting) compared(v shown.Values, at Row) {
	for _, name := range []string{"within", "difference", "p", "smallest_margin", "difference_held_out", "difference_training", "paired"} {
		v[name] = lab.Value{}
	}
	v["mean_within"], v["outcome"], v["comparable"] = "", "", ""
	for _, p := range r.pairs() {
		if p.Own == at.Own && v["paired"].(lab.Value).Text == "" {
			v["paired"] = lab.Paired(r.compare(p).Paired, 2)
		}
	}
	if at.Own == at.Base {
		return
	}
	c, margin := r.compare(at), lab.Absent
	if smallest, ok := c.SmallestMargin(r.Level); ok {
		margin = lab.Fixed(smallest, 2)
	}
	training := lab.Absent
	if own, base := at.Own.endOf(), at.Base.endOf(); own != nil && base != nil {
		training = lab.Paired(stats.Pairs(own, base), 4)
	}
	within, mean := lab.Joined("%v of %v", c.Within, len(r.Size.Seeds)), lab.YesOrNo(c.MeanWithin)
	if c.N < 2 {
		within, mean = lab.Absent, lab.Absent.Text // there is no standard deviation
	}
	maps.Copy(v, shown.Values{
		"within": within, "mean_within": mean,
		"difference": lab.Paired(c.Paired, 2), "p": lab.Fixed(c.Equivalent, 3), "smallest_margin": margin,
		"comparable": r.comparable(c), "outcome": c.Says(r.Level), "difference_training": training,
		"difference_held_out": lab.Paired(stats.Pairs(at.Own.heldOut(), at.Base.heldOut()), 4),
	})
}

// comparable says whether an arm is at most the margin worse; it may also not be shown. A baseline within the
// margin of nothing has nothing to be compared with.
func (r *Reporting) comparable(c Comparison) string {
	switch lo, hi, ok := c.Interval(0.95); {
	case !ok || stats.Mean(r.metric(r.Results[0])) <= r.Margin:
		return "not shown"
	case lo >= -r.Margin:
		return "yes"
	case hi < -r.Margin:
		return "no"
	}
	return "not shown"
}

// seenIn are values of a language, from 0: nats and BLEU of every arm by its name, and of the translator that sees
// it alone.
func (r *Reporting) seenIn(n int, name string) shown.Values {
	base := r.Results[0].Runs[0].Languages[n]
	v := shown.Values{"language": name, "pairs": base.Train, "share": lab.Share(base.Share, 1), "nats_alone": []float64(nil), "BLEU_alone": []float64(nil)}
	for _, a := range r.Results {
		own, scores := []string{shown.Word(a.ArmSpec.Name)}, [][]float64{a.ofLanguage(n, nats), a.ofLanguage(n, bleu)}
		if a.Only == n+1 {
			own = append(own, "alone")
		}
		for _, name := range own {
			v["nats_"+name], v["BLEU_"+name] = scores[0], scores[1]
		}
	}
	if r.Baselines {
		v["dictionary"] = r.Without.bleu(n+1, dictionaryOf)
	}
	return v
}

// scoredIn are values of whole records of a language, from 0, or of all: nats and BLEU also of arms by their names.
func (r *Reporting) scoredIn(n int, l train.LanguageScore) shown.Values {
	v := shown.Values{"language": l.Name, "pairs": l.Train, "share": lab.Share(l.Share, 1), "BLEU": l.BLEU, "nats": l.Loss, "accuracy": l.Accuracy}
	for i, name := range []string{"copy", "dictionary"} {
		b := r.Results[0].whole.Baselines[i]
		v[name] = append(slices.Clone(b.Languages), b.BLEU)[n]
	}
	for _, a := range r.learners() {
		of, name := a.whole.languages()[n], shown.Word(a.ArmSpec.Name)
		v["BLEU_"+name], v["nats_"+name] = of.BLEU, of.Loss
	}
	return v
}

// heldAgainst are values of a whole training beside one of its yardsticks; the training's own stand once, beside the
// first.
func (r *Result) heldAgainst(n int) shown.Values {
	w, task := r.whole, r.label()
	if w.Bytes > 0 {
		task = fmt.Sprintf("%s (%s, %d bytes)", task, w.GoVersion, w.Bytes)
	}
	v := shown.Values{"task": task, "parameters": w.Params, "steps": len(w.Losses), "bits": w.Eval.BitsPerToken, "accuracy": w.Eval.Accuracy, "weights": w.WeightsSHA256[:16]}
	for name := range v {
		if n > 0 {
			v[name] = lab.Value{}
		}
	}
	y := w.Yardsticks[n]
	v["yardstick"], v["yardstick_bits"], v["over_yardstick"] = y.Name, y.Bits, w.Eval.BitsPerToken/y.Bits
	return v
}

// params is the number of an arm's parameters.
func (r *Result) params() int64 {
	if r.whole != nil {
		return r.whole.Params
	}
	return r.Runs[0].Params
}
