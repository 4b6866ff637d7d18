package trained

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"gpipebench/internal/stats"
	"gpipebench/lab/plot"
)

// panels draw the panels of this kind: of whole records, or of outcomes.
var panels = map[string]struct {
	whole bool
	draw  func(r *Reporting, p PanelSpec) []plot.Axes
}{
	"each":        {false, drawEach},
	"differences": {false, drawDifferences},
	"bits":        {true, drawBits},
	"losses":      {true, drawLosses},
	"transferred": {false, drawTransferred},
	"curves":      {false, drawCurves},
	"bleu":        {false, drawBLEU},
}

// axis is an arm's name in a plot.
func (r *Result) axis() string { return cmp.Or(strings.Join(r.Axis, "\n"), r.ArmSpec.Name) }

// drawEach draws the metric of each training of every arm.
func drawEach(r *Reporting, p PanelSpec) []plot.Axes {
	out := &plot.DotPanel{Title: p.Title, Y: p.Y, Zero: p.Zero}
	for _, a := range r.Results {
		out.Add(a.axis(), r.metric(a))
	}
	if p.Deviations != "" {
		mean, sd := stats.MeanAndSD(out.Groups[0])
		out.Band = &plot.Band{Name: p.Deviations, Lo: mean - 2*sd, Hi: mean + 2*sd}
	}
	return []plot.Axes{out}
}

// drawBLEU draws the BLEU of each training of the arms that see all languages, beside that of a
// dictionary, which is the floor of competence.
func drawBLEU(r *Reporting, p PanelSpec) []plot.Axes {
	out := &plot.DotPanel{Title: p.Title, Y: "BLEU", Zero: p.Zero}
	if r.Without != nil {
		out.Add("dictionary", r.Without.bleu(0, dictionaryOf))
	}
	for _, a := range r.Results {
		if a.Only == 0 {
			out.Add(a.axis(), a.scores()["BLEU"])
		}
	}
	return []plot.Axes{out}
}

// drawDifferences draws the differences of comparisons, of each seed.
func drawDifferences(r *Reporting, p PanelSpec) []plot.Axes {
	out := &plot.DotPanel{Title: p.Title, Y: p.Y, Zero: p.Zero}
	rows := r.arms()
	if p.Rows == "pairs" {
		rows = r.pairs()
	}
	for _, row := range rows {
		if row.Own != row.Base {
			out.Add(cmp.Or(row.Label, row.Own.axis()), stats.Differences(r.metric(row.Own), r.metric(row.Base)))
		}
	}
	if p.Margin {
		out.Band = &plot.Band{Name: fmt.Sprintf("margin: ± %g %s", r.Margin, r.unit()), Lo: -r.Margin, Hi: r.Margin}
	}
	return []plot.Axes{out}
}

// drawBits draws, a panel for each whole training, its losses in bits, what was held out at the end,
// and what both are held against.
func drawBits(r *Reporting, _ PanelSpec) (all []plot.Axes) {
	for _, a := range r.Results {
		all = append(all, a.whole.panel(a.label()))
	}
	return all
}

func (w *wholeSample) panel(title string) plot.LinePanel {
	losses, every := plot.Binned(w.Losses, plot.Curve)
	for i := range losses {
		losses[i].Y /= math.Ln2
	}
	p := plot.LinePanel{
		Title: title, X: fmt.Sprintf("step (training: means of %d)", every), Y: "bits per token", FromZero: true,
		Series: []plot.Series{
			{Name: "training loss", Lines: [][]plot.Point{losses}},
			{Name: "held out, at the end", Lines: [][]plot.Point{{{X: float64(len(w.Losses)), Y: w.Eval.BitsPerToken}}}},
		},
	}
	if w.Bytes > 0 {
		p.Y = "bits per byte"
	}
	for _, y := range w.Yardsticks {
		name := y.Name
		if y.Floor {
			name += ", floor"
		}
		p.Levels = append(p.Levels, plot.Level{Name: name, Y: y.Bits})
	}
	return p
}
