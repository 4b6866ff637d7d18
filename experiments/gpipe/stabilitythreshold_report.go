package gpipe

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// thresholdOutcome is what came of a variant at a depth.
type thresholdOutcome struct {
	stabilityVariant
	thresholdDepth
	runs       [][]*thresholdRecord // by rate, then seed
	thresholds []thresholdBounds    // by seed: between the largest rate up to which every run survived and the next
	ends       int                  // seeds of which no run, or every run, survived: the grid bounds their thresholds on one side
}

// outcomes are in the order of the table: by depth, then by variant.
func (e *threshold) outcomes(log *records.Log, p thresholdSize) (all []*thresholdOutcome, err error) {
	for _, d := range p.Depths {
		for _, v := range e.Spec.Variants {
			o := &thresholdOutcome{stabilityVariant: v, thresholdDepth: d}
			for _, rate := range d.Rates {
				var runs []*thresholdRecord
				for _, seed := range p.AllSeeds() {
					r := &thresholdRecord{}
					if err := log.Get(e.arm(p, v, d, rate).Sample(seed), r); err != nil {
						return nil, err
					}
					runs = append(runs, r)
				}
				o.runs = append(o.runs, runs)
			}
			for i := range p.AllSeeds() {
				survived := 0
				for survived < len(d.Rates) && e.Spec.Survives.survived(o.runs[survived][i]) {
					survived++
				}
				if survived == 0 || survived == len(d.Rates) {
					o.ends++
				}
				o.thresholds = append(o.thresholds, thresholdLimits(d.Rates, survived))
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// thresholdLimits is the threshold of a seed of which the runs at the first so many of some
// rates survived.
func thresholdLimits(rates []float64, survived int) thresholdBounds {
	b := thresholdBounds{0, math.Inf(1)}
	if survived > 0 {
		b.least = rates[survived-1]
	}
	if survived < len(rates) {
		b.most = rates[survived]
	}
	return b
}

// base is the outcome of the same depth with which another is compared.
func (e *threshold) base(all []*thresholdOutcome, o *thresholdOutcome) *thresholdOutcome {
	for _, b := range all {
		if b.Layers == o.Layers && b.stabilityVariant.Name == e.Spec.Base {
			return b
		}
	}
	panic("threshold: no base: Resolve has checked that there is one")
}

// factors are the thresholds relative to a base's, seed by seed.
func (o *thresholdOutcome) factors(base *thresholdOutcome) (all []thresholdBounds) {
	for i, t := range o.thresholds {
		all = append(all, t.over(base.thresholds[i]))
	}
	return all
}

// factor is the median of the factors and its interval; of the base itself it is 1.
func (o *thresholdOutcome) factor(base *thresholdOutcome) []lab.Value {
	if o == base {
		return []lab.Value{thresholdPrintFactor(1), lab.Absent}
	}
	return thresholdMedian(o.factors(base), thresholdPrintFactor)
}

func thresholdPrintRate(x float64) lab.Value   { return lab.Number("%.3g", x) }
func thresholdPrintFactor(x float64) lab.Value { return lab.Fixed(x, 2) }

func (e *threshold) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := e.outcomes(log, p)
	if err != nil {
		return nil, err
	}
	t, n, s := p.Training, len(p.AllSeeds()), e.Spec.Survives
	var grids []string
	for _, d := range p.Depths {
		last := len(d.Rates) - 1
		grids = append(grids, fmt.Sprintf("%d + %d layers at %d learning rates from %g to %g, a factor of about %.3g apart", d.Layers, d.Layers, last+1, d.Rates[0], d.Rates[last], d.Rates[1]/d.Rates[0]))
	}
	table := &lab.Table{
		ID: e.ID(), Title: e.Title(),
		Caption: []string{
			fmt.Sprintf("As many encoder as decoder layers, of width %d; %g%% of the tokens of the training targets are replaced by random tokens; %s, schedule %s, %d steps of %d pairs; gradients are not clipped. A run survives if no value is infinite or not a number, and the mean of its last %d losses is below %g nats.",
				t.Model.Dim, 100*p.Data.Noise, t.Optimizer, t.Training("", e.setup, 0).LRSchedule, t.Steps, t.Batch, s.Window, s.Loss),
			fmt.Sprintf("%s; each with the same %d seeds. The threshold of a seed is the rate at which its runs begin to diverge: it lies between the largest one up to which every run survives and the next. Factors are thresholds relative to those of %q, of the same seed. Medians over seeds, with their 95%% intervals (order statistics).",
				strings.Join(grids, "; "), n, e.Spec.Base),
			"The grid bounds each threshold and does not tell it: medians are what they may be, from the least to the most, and intervals include all that it may be. Of a seed of which no run survives, or every one, the threshold may be anything below the smallest rate, or from the largest one on.",
		},
		Notes: p.RunNotes(),
	}
	table.Texts("depth")
	table.Numbers("layers")
	table.Texts("variant")
	table.Numbers("parameters", "threshold", "95%", "factor", "95%, factor", "runs that survive", "seeds at an end")
	rates := &lab.Table{
		ID: e.ID() + "-rates", Title: "Which learning rates a deep Transformer survives, rate by rate",
		Caption: []string{"Losses are medians of the runs that survive, in nats: at the end of the training, of targets with noise, and held-out, of targets without."},
	}
	rates.Texts("depth", "variant")
	rates.Numbers("rate", "runs that survive", "loss at the end", "held-out loss")
	var panels []plot.Axes
	for _, d := range p.Depths {
		survival := plot.LinePanel{Title: fmt.Sprintf("%d + %d layers", d.Layers, d.Layers), X: "learning rate", Y: "runs that survive (%)", FromZero: true}
		losses := plot.LinePanel{Title: fmt.Sprintf("%d + %d layers, runs that survive", d.Layers, d.Layers), X: "learning rate", Y: "held-out loss (nats), median"}
		for _, rate := range d.Rates {
			survival.Names = append(survival.Names, strconv.FormatFloat(rate, 'g', 2, 64))
		}
		losses.Names = survival.Names
		for _, o := range all {
			if o.thresholdDepth.Name != d.Name {
				continue
			}
			var share, held []plot.Point
			lived := 0
			for i, runs := range o.runs {
				var ends, heldOut []float64
				for _, r := range runs {
					if s.survived(r) {
						ends, heldOut = append(ends, r.end()), append(heldOut, r.HeldOut)
					}
				}
				lived += len(ends)
				share = append(share, plot.Point{X: float64(i), Y: 100 * float64(len(ends)) / float64(n)})
				row := []any{d.Name, o.stabilityVariant.Name, thresholdPrintRate(d.Rates[i]), lab.Joined("%v of %v", len(ends), n), lab.Absent, lab.Absent}
				if len(ends) > 0 {
					row[4], row[5] = lab.Fixed(stats.Median(ends), 2), lab.Fixed(stats.Median(heldOut), 2)
					held = append(held, plot.Point{X: float64(i), Y: stats.Median(heldOut)})
				}
				rates.Add(row...)
			}
			table.Add(d.Name, d.Layers, o.stabilityVariant.Name, o.runs[0][0].Params, thresholdMedian(o.thresholds, thresholdPrintRate), o.factor(e.base(all, o)),
				lab.Joined("%v of %v", lived, len(d.Rates)*n), lab.Joined("%v of %v", o.ends, n))
			survival.Series = append(survival.Series, plot.Series{Name: o.stabilityVariant.Name, Lines: [][]plot.Point{share}})
			losses.Series = append(losses.Series, plot.Series{Name: o.stabilityVariant.Name, Lines: [][]plot.Point{held}})
		}
		panels = append(panels, survival, losses)
	}
	if reference != nil {
		e.addReference(table, log, reference, all)
	}
	files, err := plot.Files(e.ID(), e.Title(), panels)
	return &lab.Report{Tables: []*lab.Table{table, rates}, Files: files}, err
}

// addReference adds a column with a reference's factors, for a depth of the same name.
func (e *threshold) addReference(table *lab.Table, log, reference *records.Log, all []*thresholdOutcome) {
	var refs []*thresholdOutcome
	if p, ok := e.Spec.Profiles[reference.Key.Profile]; ok {
		refs, _ = e.outcomes(reference, p) // none of another spec
	}
	table.Numbers(lab.ReferenceName(log, reference) + " factor")
	for i, o := range all {
		cell := lab.Absent
		for _, r := range refs {
			if r.thresholdDepth.Name == o.thresholdDepth.Name && r.stabilityVariant.Name == o.stabilityVariant.Name {
				cell = r.factor(e.base(refs, r))[0]
			}
		}
		table.Rows[i] = append(table.Rows[i], cell)
	}
	table.Notes = append(table.Notes, lab.ReferenceNote(reference))
}
