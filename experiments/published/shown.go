package published

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
)

// Shown is the table of a scoreboard, as its command prints it.
func (b *Scoreboard) Shown() *lab.Table { return b.summaryTable(id, "Scoreboard") }

// id is the experiment's, which begins the names of its tables.
const id = "predictions"

// names are what values of each kind are called.
var names = map[string]string{"": "all", stepSeconds: "step", peakBytes: "memory"}

func (b *Scoreboard) summaryTable(id, title string) *lab.Table {
	o := b.Overall
	t := &lab.Table{ID: id, Title: title, Caption: []string{
		"What a roofline of each accelerator predicts for trainings that others measured and published, compared with their measurements. Every figure of an accelerator has a source or is listed as assumed. " + Fitted + " Error: predicted over measured, minus 1; absolute: the mean of its absolute values, where a row that can be modelled but has no prediction counts as 100%. Spread: the standard deviation. Rank: Spearman's correlation of predicted and measured values.",
		"Regret: how much longer a sequence takes in the configuration that the model would choose than in the fastest measured one, among rows with the same network, number of devices and mini-batch; the mean over such groups, and the largest.",
		fmt.Sprintf("For comparison: constant share, %.0f%% of the peak for the model's FLOPs, with nothing recomputed; and one factor, the model's seconds times a factor for the device, the median of measured over predicted seconds in a different table.", 100*ConstantShare),
	}}
	t.Texts("table", "of")
	t.Numbers("rows", "can be modelled", "predicted", "absolute", "error", "spread")
	t.Texts("worst row")
	t.Numbers("its error", "rank", "regret", "largest regret", "groups", "constant share", "one factor", "factor")
	t.Texts("factor from", "same machine")
	for _, s := range b.Tables {
		if s.Can == 0 || s.What != "" && s.Can == b.can(s.Table) {
			continue // nothing, or the same as all of the table
		}
		share, factor := []any{lab.Absent}, []any{lab.Absent, lab.Absent, "-", "-"}
		if s.Share != nil {
			share = []any{lab.Percent(s.Share.MAE, 1)}
		}
		if f := s.Factored; f != nil {
			factor = []any{lab.Percent(f.MAE, 1), lab.Fixed(f.Factor, 3), f.From, lab.YesOrNo(f.Same)}
		}
		regret := []any{lab.Absent, lab.Absent, lab.Absent}
		if s.Groups > 0 {
			regret = []any{lab.Percent(s.Regret, 1), lab.Percent(s.WorstRegret, 1), s.Groups}
		}
		rank := lab.Absent
		if !math.IsNaN(s.Rank) {
			rank = lab.Fixed(s.Rank, 3)
		}
		t.Add(s.Table, names[s.What], s.Rows, s.Can, s.Predicted, lab.Percent(s.MAE, 1), signed(s.Signed), lab.Percent(s.Spread, 1),
			s.Worst, signed(s.WorstError), rank, regret, share, factor)
	}
	if o.Tables > 1 { // of one, its row says it
		t.Notes = append(t.Notes, fmt.Sprintf("Mean of %d tables: %s absolute; of seconds %s, of memory %s.", o.Tables, percent(o.MAE), percent(o.Seconds), percent(o.Bytes)), b.lowNote())
	}
	if !math.IsNaN(o.Apart) {
		t.Notes = append(t.Notes, fmt.Sprintf("%s, steps of small networks on one node, is reported separately, because the host's time per operation was chosen with it in view: %s.", Apart, percent(o.Apart)))
	}
	t.Notes = append(t.Notes, b.reasonNotes()...)
	return t
}

// lowNote says what the mean hides: the sign, and how few rows the newest devices have.
func (b *Scoreboard) lowNote() string {
	low, all := 0, 0
	var newest []string
	for _, s := range b.Tables {
		switch {
		case s.Predicted == 0:
		case s.What == "":
			all++
			if s.Signed < 0 {
				low++
			}
		case slices.Contains(b.newest, s.Table):
			newest = append(newest, fmt.Sprintf("%s of %s, %s from %s", names[s.What], s.Table, signed(s.Signed).Text, units.Counted(s.Predicted, "row")))
		}
	}
	text := fmt.Sprintf("In %d of %d tables predictions are too low on average", low, all)
	if len(newest) > 0 {
		text += "; all tables for H100 and newer: " + strings.Join(newest, "; ")
	}
	return text + "."
}

// can is how many rows of a table can be modelled.
func (b *Scoreboard) can(table string) int {
	i := slices.IndexFunc(b.Tables, func(s Summary) bool { return s.Table == table && s.What == "" })
	return b.Tables[i].Can
}

// signed is an error in percent, with a digit.
func signed(x float64) lab.Value { return lab.Number("%+.1f%%", 100*x) }

func percent(x float64) string { return lab.Percent(x, 1).Text }

// reasonNotes say why rows are not modelled, the reason of most rows first.
func (b *Scoreboard) reasonNotes() (notes []string) {
	var all []Reason
	in := map[string][]string{}
	for _, s := range b.Tables {
		if s.What != "" {
			continue
		}
		for _, r := range s.Reasons {
			in[r.Why] = append(in[r.Why], s.Table)
			i := slices.IndexFunc(all, func(known Reason) bool { return known.Why == r.Why })
			if i < 0 {
				all = append(all, r)
				continue
			}
			all[i].Rows += r.Rows
		}
	}
	slices.SortStableFunc(all, func(a, b Reason) int { return b.Rows - a.Rows })
	for _, r := range all {
		notes = append(notes, fmt.Sprintf("Not modelled, %s: %s (%s).", units.Counted(r.Rows, "row"), r.Why, strings.Join(in[r.Why], ", ")))
	}
	return notes
}

// partsTable says what the predicted steps of each table consist of.
func (b *Scoreboard) partsTable(predictions map[string]outcome) *lab.Table {
	t := &lab.Table{ID: id + "-parts", Title: "What the predicted steps consist of", Caption: []string{
		"Means over the steps of a table, in percent of the predicted step. Computed again: the part of computing that is recomputation. Tensor, pipeline, replicas: exposed time of all-reduces and gathers of tensor parallelism, of transfers between stages, and of gradient all-reduces and weight gathers of data parallelism. Bubble: waiting caused by the schedule and by unequal stages.",
	}}
	t.Texts("table")
	t.Numbers("steps", "error", "computing", "computed again", "tensor", "pipeline", "bubble", "replicas", "optimiser")
	for _, s := range b.Tables {
		if s.What != stepSeconds || s.Predicted == 0 {
			continue
		}
		var sums [7]float64
		n := 0.0
		for _, r := range b.Rows {
			if r.Table != s.Table || r.What != stepSeconds || !r.Modelled {
				continue
			}
			p := predictions[r.ID]
			for i, part := range []float64{p.Parts.Computing, p.Parts.Recomputed, p.Parts.Tensor, p.Parts.Pipeline, p.Parts.Bubble, p.Parts.Replicas, p.Parts.Optimizer} {
				sums[i] += part / p.Seconds
			}
			n++
		}
		row := []any{s.Table, s.Predicted, signed(s.Signed)}
		for _, sum := range sums {
			row = append(row, lab.Percent(sum/n, 1))
		}
		t.Add(row...)
	}
	return t
}

// panels are predicted against measured values, a colour for each table.
func (b *Scoreboard) panels() (panels []plot.Axes) {
	for _, of := range []struct {
		what, quantity string
		unit           float64
	}{{stepSeconds, "seconds of a step", 1}, {peakBytes, "memory of the fullest device, GB", 1e9}} {
		p := &plot.LinePanel{Title: of.quantity, X: "measured", Y: "predicted", Against: true}
		for _, s := range b.Tables {
			if s.What != of.what || s.Predicted == 0 {
				continue
			}
			var dots []plot.Point
			for _, r := range b.Rows {
				if r.Table == s.Table && r.What == of.what && r.Modelled {
					dots = append(dots, plot.Point{X: *r.Measured / of.unit, Y: *r.Predicted / of.unit})
				}
			}
			p.Series = append(p.Series, plot.Series{Name: s.Table, Lines: [][]plot.Point{dots}, Dots: true})
		}
		if len(p.Series) > 0 {
			panels = append(panels, p)
		}
	}
	return panels
}
