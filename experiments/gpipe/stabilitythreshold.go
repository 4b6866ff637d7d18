package gpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

func (e *threshold) Planned(profile string) []lab.PlannedRun {
	p := e.Spec.Profiles[profile]
	return trained.PlannedArms(profile, e.arms(p), p.Seeds)
}

// thresholdSpec is spec.yaml.
type thresholdSpec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec            `yaml:"setup"`
	Variants []stabilityVariant       `yaml:"variants"`
	Base     string                   `yaml:"base" want:"name"` // the variant that the others are compared with
	Survives thresholdSurvival        `yaml:"survives"`
	Profiles map[string]thresholdSize `yaml:"profiles"`
}

type thresholdSize struct {
	trained.Profile `yaml:",inline"`
	Depths          []thresholdDepth `yaml:"depths"`
	Data            lab.PairsSpec    `yaml:"data"`
}

// thresholdDepth is a number of layers of the encoder, and of the decoder, and its grid.
type thresholdDepth struct {
	Name   string    `yaml:"name" want:"name,key"`
	Layers int       `yaml:"layers"`
	Rates  []float64 `yaml:"rates" want:">0..1000"` // ascending
}

// thresholdSurvival defines when a run survives: it comes to its end, where the mean of its last
// losses is below a loss.
type thresholdSurvival struct {
	Window int     `yaml:"window"` // steps
	Loss   float64 `yaml:"loss" want:">0.."`
}

func (s thresholdSurvival) survived(r *thresholdRecord) bool {
	return r.NonFinite == "" && r.end() < s.Loss
}

// threshold trains every variant at every depth and rate.
type threshold struct {
	lab.Base[thresholdSpec]
	setup train.Setup
}

func (e *threshold) Resolve() *lab.Problem {
	e.setup = e.Spec.Setup.Setup()
	if err := trained.CheckSetup(e.setup); err != nil {
		return lab.At(err, "setup")
	}
	if p := trained.Check(e.Spec.Profiles); p != nil {
		return p
	}
	if !slices.ContainsFunc(e.Spec.Variants, func(v stabilityVariant) bool { return v.Name == e.Spec.Base }) {
		return lab.At(fmt.Errorf("no variant %q", e.Spec.Base), "base")
	}
	for _, name := range lab.Profiles {
		p, window := e.Spec.Profiles[name], e.Spec.Survives.Window
		switch {
		case p.Training.Model.Name != train.Translator:
			return lab.At(fmt.Errorf("want %s", train.Translator), "profiles", name, "training", "model")
		case p.Training.Steps%window != 0:
			return lab.At(fmt.Errorf("want a multiple of %d, the window of survives", window), "profiles", name, "training", "steps")
		}
		for i, d := range p.Depths {
			if len(d.Rates) < 2 || !slices.IsSorted(d.Rates) {
				return lab.At(errors.New("want two or more, from the smallest to the largest"), "profiles", name, "depths", strconv.Itoa(i), "rates")
			}
		}
	}
	return nil
}

// thresholdRecord is one training.
type thresholdRecord struct {
	Losses    []float64 `json:"losses"`               // in nats: the mean of each window of steps
	NonFinite string    `json:"non_finite,omitempty"` // what ended the run at the step after the last
	HeldOut   float64   `json:"held_out"`             // nats per target without noise; 0: the run had ended
	Steps     int       `json:"steps"`
	Params    int64     `json:"params"`
	Seconds   float64   `json:"seconds"`
}

// end is the loss at the end of a run that was not ended before.
func (r *thresholdRecord) end() float64 { return r.Losses[len(r.Losses)-1] }

// Check requires losses unless the run was ended.
func (r *thresholdRecord) Check() error {
	if r.NonFinite == "" && len(r.Losses) == 0 {
		return errors.New("no losses")
	}
	return nil
}

// arm is a variant at a depth and a rate.
func (e *threshold) arm(p thresholdSize, v stabilityVariant, d thresholdDepth, rate float64) trained.Arm {
	return trained.Arm{
		Name: fmt.Sprintf("%s/layers=%d/lr=%s", v.Name, d.Layers, strconv.FormatFloat(rate, 'g', -1, 64)),
		Training: func(seed uint64) train.Training {
			t := p.Training.Training("synthetic-translation", e.setup, seed)
			t.Model.Layers = d.Layers
			v.Cure(&t.Model)
			t.LR *= rate
			t.Config = p.Data.Config()
			return t
		},
	}
}

func (e *threshold) arms(p thresholdSize) (arms []trained.Arm) {
	for _, d := range p.Depths {
		for _, v := range e.Spec.Variants {
			for _, rate := range d.Rates {
				arms = append(arms, e.arm(p, v, d, rate))
			}
		}
	}
	return arms
}

func (e *threshold) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	return trained.Each(ctx, e.ID(), e.arms(profile), profile.Seeds, log, p, func(ctx context.Context, t train.Training) (any, string, error) {
		r, err := e.train(ctx, t)
		switch {
		case err != nil:
			return nil, "", err
		case r.NonFinite != "":
			return r, fmt.Sprintf("ended after %d steps", r.Steps), nil
		case e.Spec.Survives.survived(r):
			return r, fmt.Sprintf("survived, loss %.3g", r.end()), nil
		}
		return r, fmt.Sprintf("diverged, loss %.3g", r.end()), nil
	})
}

// train makes a run.
func (e *threshold) train(ctx context.Context, t train.Training) (*thresholdRecord, error) {
	start := time.Now()
	l, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var so struct {
		Losses []float64 `json:"losses"` // of each step
	}
	err = l.Run(ctx, train.Hooks{Report: &so, After: func(step *train.TrainStep) error {
		so.Losses = append(so.Losses, step.Loss)
		return nil
	}})
	r := &thresholdRecord{Losses: []float64{}, Steps: len(so.Losses), Params: nn.CountParams(l.Pipeline.Layers)}
	for window := range slices.Chunk(so.Losses, e.Spec.Survives.Window) {
		r.Losses = append(r.Losses, stats.Mean(window))
	}
	if err == nil {
		var scores *train.Evaluation
		if scores, err = l.Evaluate(ctx); err == nil {
			r.HeldOut = scores.Loss
		}
	}
	if bad, is := errors.AsType[*gpipe.NonFiniteError](err); is {
		r.NonFinite = bad.Error()
	} else if err != nil {
		return nil, err
	}
	r.Seconds = l.Earlier() + time.Since(start).Seconds()
	return r, nil
}

// thresholdBounds are the least and the most that a value can be. The most of a threshold beyond the
// upper end of the grid is infinite, the least of one below its lower end 0.
type thresholdBounds struct{ least, most float64 }

// over is the quotient of two values above 0; either may be unbounded.
func (b thresholdBounds) over(of thresholdBounds) thresholdBounds {
	return thresholdBounds{b.least / of.most, b.most / of.least}
}

// known reports whether it is a single value.
func (b thresholdBounds) known() bool { return b.least == b.most }

// thresholdMedian returns the median of values and, as a second cell, its 95% interval by order
// statistics. Neither decreases where a value increases, so the least and the most of the
// values give the least and the most of both: values that the grid only bounds
// make them wider, and are neither left out nor guessed.
func thresholdMedian(values []thresholdBounds, print func(float64) lab.Value) []lab.Value {
	var least, most []float64
	for _, b := range values {
		least, most = append(least, b.least), append(most, b.most)
	}
	middle := thresholdBounds{stats.Median(least), stats.Median(most)}
	value := middle.value(print)
	lo, _, ok := stats.Interval(least, 0.95)
	_, hi, _ := stats.Interval(most, 0.95)
	if !ok {
		if !middle.known() {
			value.Interval = []float64{middle.least, middle.most}
		}
		return []lab.Value{value, lab.Absent}
	}
	ends := thresholdBounds{lo, hi}
	interval := lab.Value{Text: ends.between(print), Interval: []float64{lo, hi}}
	value.Interval = interval.Interval
	return []lab.Value{value, interval}
}

// value prints what is known of a single value.
func (b thresholdBounds) value(print func(float64) lab.Value) lab.Value {
	least, most := b.least > 0, !math.IsInf(b.most, 1)
	switch {
	case b.known():
		return print(b.least)
	case least && most:
		return lab.Value{Text: fmt.Sprintf("%v to %v", print(b.least), print(b.most)), Numbers: []float64{b.least, b.most}}
	case least:
		return lab.Value{Text: fmt.Sprintf("≥ %v", print(b.least)), Numbers: []float64{b.least}}
	case most:
		return lab.Value{Text: fmt.Sprintf("≤ %v", print(b.most)), Numbers: []float64{b.most}}
	}
	return lab.Absent
}

// between prints an interval; an end may be unknown.
func (b thresholdBounds) between(print func(float64) lab.Value) string {
	lo, hi := "0", "∞)"
	if b.least > 0 {
		lo = print(b.least).Text
	}
	if !math.IsInf(b.most, 1) {
		hi = print(b.most).Text + "]"
	}
	return "[" + lo + ", " + hi
}

// thresholdOutcome is what came of a variant at a depth.
type thresholdOutcome struct {
	stabilityVariant
	thresholdDepth
	runs       [][]*thresholdRecord // by rate, then seed
	thresholds []thresholdBounds    // by seed: between the largest rate up to which every run survived and the next
	ends       int                  // seeds whose runs all survived, or all failed: the grid bounds their thresholds on one side
}

// outcomes are in the order of the table: by depth, then by variant.
func (e *threshold) outcomes(log *records.Log, p thresholdSize) (all []*thresholdOutcome, err error) {
	for _, d := range p.Depths {
		for _, v := range e.Spec.Variants {
			o := &thresholdOutcome{stabilityVariant: v, thresholdDepth: d}
			for _, rate := range d.Rates {
				var runs []*thresholdRecord
				for _, seed := range p.Seeds {
					r := &thresholdRecord{}
					if err := log.Get(e.arm(p, v, d, rate).Sample(seed), r); err != nil {
						return nil, err
					}
					runs = append(runs, r)
				}
				o.runs = append(o.runs, runs)
			}
			for i := range p.Seeds {
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

// thresholdLimits bounds a seed's threshold, given that its runs at the first survived rates did
// not diverge.
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

// Scores are, of each variant at each depth, up to how many of the rates of the grid a seed's runs
// survive.
func (e *threshold) Scores(log *records.Log) (lab.Scores, error) {
	p, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := e.outcomes(log, p)
	if err != nil {
		return nil, err
	}
	scores := lab.Scores{}
	for _, o := range all {
		var survived []float64
		for _, t := range o.thresholds {
			survived = append(survived, float64(slices.Index(o.Rates, t.least)+1)) // -1: not at the smallest
		}
		scores.Put(o.stabilityVariant.Name+", "+o.thresholdDepth.Name, "rates survived", survived)
	}
	return scores, nil
}

func (e *threshold) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := e.outcomes(log, p)
	if err != nil {
		return nil, err
	}
	t, n, s := p.Training, len(p.Seeds), e.Spec.Survives
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
		Notes: lab.FewRunsNote(len(p.Seeds)),
	}
	table.Texts("depth")
	table.Numbers("layers")
	table.Texts("variant")
	table.Numbers("parameters", "threshold", "95%", "factor", "95%, factor", "runs that survive", "seeds at an end")
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
				var heldOut []float64
				for _, r := range runs {
					if s.survived(r) {
						heldOut = append(heldOut, r.HeldOut)
					}
				}
				lived += len(heldOut)
				share = append(share, plot.Point{X: float64(i), Y: 100 * float64(len(heldOut)) / float64(n)})
				if len(heldOut) > 0 {
					held = append(held, plot.Point{X: float64(i), Y: stats.Median(heldOut)})
				}
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
	report := &lab.Report{Tables: []*lab.Table{table}}
	report.Files, err = plot.Figure(e, lab.N(n, "run")+" a point", report.Tables, panels)
	return report, err
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
