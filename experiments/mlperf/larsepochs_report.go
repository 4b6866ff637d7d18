package mlperf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
)

// epochsResult is a choice and the trainings of the other seeds with its settings.
type epochsResult struct {
	epochsChoice
	epochsSettings
	runs []*trained.Reached // by seed
}

// epochs of a training. One that has not reached the accuracy needs more than these, which
// are its schedule's.
func (r epochsResult) epochs() (all []float64) {
	for _, run := range r.runs {
		all = append(all, float64(max(run.Epochs, r.Epochs*epochsUnreached(run))))
	}
	return all
}

func epochsUnreached(r *trained.Reached) int {
	if r.Epochs == 0 {
		return 1
	}
	return 0
}

func (r epochsResult) reached() int {
	n := len(r.runs)
	for _, run := range r.runs {
		n -= epochsUnreached(run)
	}
	return n
}

func (r epochsResult) all() bool { return r.reached() == len(r.runs) }

// mean is printed with a sign where it is a lower bound.
func (r epochsResult) mean() lab.Value {
	v := lab.Mean(r.epochs(), 1)
	if !r.all() {
		v.Text = "> " + v.Text
	}
	return v
}

func (r epochsResult) share() lab.Value { return lab.Joined("%v of %v", r.reached(), len(r.runs)) }

// against compares epochs with those of a base, seed by seed, by what of makes of both. Where
// a training has not reached the accuracy one side of the interval is open.
func (r epochsResult) against(base epochsResult, of func(own, base float64) float64, format func(float64) lab.Value) lab.Value {
	var all []float64
	bases := base.epochs()
	for i, x := range r.epochs() {
		all = append(all, of(x, bases[i]))
	}
	p := stats.Sampled(all)
	lo, hi, ok := p.Interval(0.95)
	if !ok || !base.all() {
		lo = math.Inf(-1)
	}
	if !ok || !r.all() {
		hi = math.Inf(1)
	}
	return lab.Joined("%v %v", format(p.Mean), lab.Interval(format(lo), format(hi)))
}

func epochsDifference(own, base float64) float64 { return own - base }
func epochsRatio(own, base float64) float64      { return own / base }

func epochsSigned(x float64) lab.Value    { return lab.Difference(x, 1) }
func epochsHundredth(x float64) lab.Value { return lab.Fixed(x, 3) }

// epochsResults are a log's.
type epochsResults struct {
	epochsProfile
	curve   []epochsChoice // every mini-batch
	largest epochsChoice   // with which pilots converge
	others  []epochsChoice
	by      []epochsResult // the curve's, as far as pilots converge
	ways    []epochsResult // with the largest mini-batch
}

func (e *epochs) results(log *records.Log) (*epochsResults, error) {
	p, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	r := &epochsResults{epochsProfile: p}
	if r.curve, r.largest, err = e.converging(p, log); err != nil {
		return nil, err
	}
	if r.others, err = e.beside(p, log, r.largest.batch); err != nil {
		return nil, err
	}
	for _, c := range slices.Concat(r.curve, r.others) {
		made := epochsResult{epochsChoice: c}
		if c.best >= 0 {
			made.epochsSettings = c.grid[c.best]
			if made.runs, err = epochsRead(log, e.arm(p, c.epochsEntry, made.epochsSettings), p.Seeds); err != nil {
				return nil, err
			}
		}
		ofCurve := c.Name == e.Spec.Ways[0].Name
		if ofCurve && c.best >= 0 {
			r.by = append(r.by, made)
		}
		if !ofCurve || c.batch == r.largest.batch {
			r.ways = append(r.ways, made)
		}
	}
	return r, nil
}

// Scores are, of each way, whether a training reached the accuracy (1) or not (0) and its epochs, which
// are more than those of the schedule if it did not; and these of the first way's smallest and largest
// mini-batch.
func (e *epochs) Scores(log *records.Log) (lab.Scores, error) {
	r, err := e.results(log)
	if err != nil {
		return nil, err
	}
	scores := lab.Scores{}
	for _, w := range r.ways {
		var reached []float64
		for _, run := range w.runs {
			reached = append(reached, float64(1-epochsUnreached(run)))
		}
		scores.Put(w.Name, "reached", reached)
		scores.Put(w.Name, "epochs", w.epochs())
	}
	scores.Put("smallest mini-batch", "epochs", r.by[0].epochs())
	scores.Put("largest mini-batch", "epochs", r.by[len(r.by)-1].epochs())
	return scores, nil
}

func (e *epochs) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := e.results(log)
	if err != nil {
		return nil, err
	}
	ways := e.table1(r)
	if reference != nil {
		before, err := e.results(reference)
		if err != nil {
			before = nil // of another spec
		}
		epochsAddReference(ways, lab.ReferenceName(log, reference)+" epochs", before)
	}
	report := &lab.Report{Tables: []*lab.Table{ways, e.figure8(r), e.pilots(r)}}
	dots := &plot.DotPanel{Title: "forms of LARS, largest mini-batch", Y: "epochs"}
	for _, w := range r.ways {
		dots.Add(w.Name, w.epochs())
	}
	report.Files, err = plot.Figure(e, lab.N(len(r.Seeds), "seed"), report.Tables, []plot.Axes{dots, e.panel(r)})
	return report, err
}

// epochsAddReference adds a column with the mean epochs of a reference's rows.
func epochsAddReference(t *lab.Table, column string, before *epochsResults) {
	t.Numbers(column)
	for i := range t.Rows {
		cell := lab.Absent
		if before != nil {
			cell = before.ways[i].mean()
		}
		t.Rows[i] = append(t.Rows[i], cell)
	}
}

func (e *epochs) table1(r *epochsResults) *lab.Table {
	p := r.epochsProfile
	t := &lab.Table{ID: e.ID(), Title: e.Title(), Caption: []string{
		fmt.Sprintf("%v, %s procedural images in an epoch; epochs up to the first after which %g%% of %s held-out images are right, over %d seeds. LARS with a coefficient of %g, weight decay %g and label smoothing %g; the rate rises over the warm-up and then falls as the square of what is left of the schedule, with which a training ends; batch norm over %d examples.",
			p.Model, units.FormatCommas(int64(p.Images.Train)), p.Accuracy, units.FormatCommas(int64(p.Images.HeldOut)), len(p.Seeds), e.Spec.Trust, e.Spec.L2, e.Spec.LabelSmoothing, e.Spec.Statistics),
		fmt.Sprintf("The mini-batch is the largest with which all pilots of the first row converge with some of the settings tried. Every row's settings are those of as many trials, %d of each of %d pilot seeds, which are not among the seeds of the table: the fewest epochs on average, if all pilots reach the accuracy; if they do with none, those of the other rows that come nearest: most pilots that reach it, then the highest accuracies. Differences and ratios are to the first row, means over pairs of trainings with the same seed, with their 95%% intervals (Student's t).",
			len(r.largest.grid), len(p.Pilots)),
	}}
	t.Texts("update")
	t.Numbers("paper: rate", "paper: warm-up", "paper: momentum", "paper: epochs", "paper: ratio",
		"mini-batch", "rate", "lower rates tried", "higher", "warm-up", "momentum", "schedule", "reached", "epochs", "sd", "difference", "ratio")
	for i, w := range r.ways {
		row := []any{w.Name, w.Paper.Rate, w.Paper.WarmUp, w.Paper.Momentum, w.Paper.Epochs,
			lab.Fixed(w.Paper.Epochs.Number()/e.Spec.Ways[0].Paper.Epochs.Number(), 3), w.batch}
		lower, higher := w.rates()
		row = append(row, lab.Number("%.3g", w.epochsSettings.Rate), lower, higher, lab.Fixed(w.WarmUp*float64(w.epochsSettings.Epochs), 1), lab.Number("%g", w.epochsSettings.Momentum), w.epochsSettings.Epochs,
			w.share(), w.mean(), lab.SD(w.epochs(), 1))
		if i == 0 {
			t.Add(append(row, lab.Absent, lab.Fixed(1, 3))...)
			continue
		}
		t.Add(append(row, w.against(r.ways[0], epochsDifference, epochsSigned), w.against(r.ways[0], epochsRatio, epochsHundredth))...)
	}
	t.Notes = slices.Concat(epochsEdges(r.ways), lab.FewSeedsNote(len(p.Seeds)))
	return t
}

// rates are how many rates below and above the chosen one were tried.
func (r epochsResult) rates() (lower, higher int) {
	var below, above []float64
	for _, s := range r.grid {
		switch chosen := r.epochsSettings.Rate; {
		case s.Rate < chosen && !slices.Contains(below, s.Rate):
			below = append(below, s.Rate)
		case s.Rate > chosen && !slices.Contains(above, s.Rate):
			above = append(above, s.Rate)
		}
	}
	return len(below), len(above)
}

// epochsEdges says where a choice is at an end of the rates that were tried, so that others might
// have been better.
func epochsEdges(all []epochsResult) (notes []string) {
	var at []string
	for _, r := range all {
		if lower, higher := r.rates(); lower == 0 || higher == 0 {
			at = append(at, fmt.Sprintf("%s at %d", r.Name, r.batch))
		}
	}
	if len(at) > 0 {
		notes = append(notes, "The chosen rate is the lowest or the highest that was tried: "+strings.Join(at, ", ")+".")
	}
	return notes
}

// Names of the series.
const (
	epochsHere      = "here"
	epochsReference = "MLPerf reference"
	epochsLogged    = "Google logs"
)

// epochsSeries is a curve of published points.
type epochsSeries struct {
	name   string
	points []epochsPublished
}

func (e *epochs) published() []epochsSeries {
	return []epochsSeries{{epochsReference, e.Spec.Reference}, {epochsLogged, e.Spec.Logged}}
}

// figure8 says by how much each series grows.
func (e *epochs) figure8(r *epochsResults) *lab.Table {
	t := &lab.Table{ID: e.ID() + "-growth", Title: "Figure 8: growth of the epochs with the mini-batch", Caption: []string{
		"From a series' smallest mini-batch to its largest: how many times the mini-batch and the epochs, and the power of the mini-batch with which the epochs grow between the two. Pilots of larger ones than ours did not converge.",
	}}
	t.Texts("series")
	t.Numbers("mini-batches", "from", "to", "times", "epochs", "power")
	if first, last := r.by[0], r.by[len(r.by)-1]; len(r.by) > 1 {
		times := float64(last.batch) / float64(first.batch)
		t.Add(epochsHere, len(r.by), first.batch, last.batch, lab.Number("%.3g", times),
			last.against(first, epochsRatio, func(x float64) lab.Value { return lab.Fixed(x, 2) }),
			last.against(first, func(own, base float64) float64 { return math.Log(own/base) / math.Log(times) }, epochsHundredth))
	}
	for _, s := range e.published() {
		smallest, largest := s.points[0], s.points[len(s.points)-1]
		times, grown := float64(largest.Batch)/float64(smallest.Batch), largest.Epochs.Number()/smallest.Epochs.Number()
		t.Add(s.name, len(s.points), smallest.Batch, largest.Batch, lab.Number("%.3g", times), lab.Fixed(grown, 2), lab.Fixed(math.Log(grown)/math.Log(times), 3))
	}
	return t
}

// panel draws all series over the doublings of their mini-batches.
func (e *epochs) panel(r *epochsResults) *plot.LinePanel {
	p := &plot.LinePanel{Title: "mini-batches", X: "doublings of the mini-batch", Y: "epochs, over those of the smallest"}
	doublings := func(batch, smallest int) float64 { return math.Log2(float64(batch) / float64(smallest)) }
	first := r.by[0].epochs()
	lines := make([][]plot.Point, len(r.Seeds))
	for _, made := range r.by {
		for i, x := range made.epochs() {
			lines[i] = append(lines[i], plot.Point{X: doublings(made.batch, r.by[0].batch), Y: x / first[i]})
		}
	}
	p.Series = append(p.Series, plot.MedianAndRange("measured "+epochsHere, lines))
	for _, s := range e.published() {
		var line []plot.Point
		for _, at := range s.points {
			if grown := at.Epochs.Number() / s.points[0].Epochs.Number(); !math.IsNaN(grown) {
				line = append(line, plot.Point{X: doublings(at.Batch, s.points[0].Batch), Y: grown})
			}
		}
		p.Series = append(p.Series, plot.Series{Name: s.name, Lines: [][]plot.Point{line}, Dashed: true})
	}
	return p
}

// pilots has a row for every setting that was tried.
func (e *epochs) pilots(r *epochsResults) *lab.Table {
	t := &lab.Table{ID: e.ID() + "-pilots", Title: "Epochs to an accuracy: the pilots, and what they choose", Caption: []string{
		fmt.Sprintf("Epochs of the pilots with seeds %s, \"-\" where the accuracy was not reached. Chosen is the fewest epochs on average where all reach it, the first of equals.", strings.Trim(fmt.Sprint(r.Pilots), "[]")),
	}}
	t.Texts("update")
	t.Numbers("mini-batch", "schedule", "warm-up", "momentum", "rate", "epochs", "most accurate")
	t.Texts("chosen")
	for _, c := range slices.Concat(r.curve, r.others) {
		for i, s := range c.grid {
			var reached []any
			best := 0.0
			for _, run := range c.pilots[i] {
				cell := any(lab.Absent)
				if run.Epochs > 0 {
					cell = run.Epochs
				}
				reached = append(reached, cell)
				if len(run.Accuracies) > 0 {
					best = max(best, slices.Max(run.Accuracies))
				}
			}
			t.Add(c.Name, c.batch, s.Epochs, lab.Fixed(s.WarmUp*float64(s.Epochs), 1), lab.Number("%g", s.Momentum), lab.Number("%.3g", s.Rate),
				lab.List(" ", reached...), lab.Percent(best, 1), lab.YesOrNo(i == c.best))
		}
	}
	return t
}
