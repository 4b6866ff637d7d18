package delayed

import (
	"gpipebench/experiments/plot"
	"gpipebench/experiments/stats"
)

// panels are what late reduction costs, the accuracies by seed, and their
// differences: groups are those of the networks, intervals of their means.
func (d *Delayed) panels(m *delayedMemory, accuracies [][]float64, intervals []plot.Spread) []plot.Axes {
	times := func(of [2]int64) float64 { return float64(of[1]) / float64(of[0]) }
	bill := &plot.BarPanel{
		Title: late + ", " + early + " = 1", Y: "ratio", Names: []string{"parameters", "activations", "forward FLOPs"},
		Series: []plot.BarSeries{
			{Name: "paper", Values: []float64{1, d.Spec.Paper.Value, 0}},
			{Name: "modelled from shapes, the paper's scale", Values: []float64{times(m.PaperParams), times(m.PaperSaved), times(m.PaperFLOPs)}},
			{Name: "planned memory of what is trained here", Values: []float64{0, times(m.Kept), 0}},
		},
	}
	var gains []float64
	for i := range accuracies[0] {
		gains = append(gains, accuracies[1][i]-accuracies[0][i])
	}
	difference := &plot.DotPanel{Title: "difference, pairs of one seed", Y: "percentage points", Names: []string{late + " - " + early}, Groups: [][]float64{gains}, Zero: true}
	if lo, hi, ok := stats.Pairs(accuracies[1], accuracies[0]).Interval(0.95); ok {
		difference.Spread = []plot.Spread{{Group: 0, Lo: lo, Hi: hi}}
	}
	return []plot.Axes{
		bill,
		&plot.DotPanel{Title: "final accuracy", Y: "held-out accuracy (%)", Names: []string{early, late}, Groups: accuracies, Spread: intervals},
		difference,
	}
}
