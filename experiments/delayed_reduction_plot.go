package experiments

// panels are what late reduction costs, the accuracies by seed, and their
// differences: groups are those of the networks, intervals of their means.
func (d *delayed) panels(m *delayedMemory, accuracies [][]float64, intervals []spread) []axes {
	times := func(of [2]int64) float64 { return float64(of[1]) / float64(of[0]) }
	bill := &barPanel{
		title: late + ", " + early + " = 1", y: "ratio", names: []string{"parameters", "activations", "forward FLOPs"},
		series: []barSeries{
			{name: "paper", values: []float64{1, d.spec.Paper.Value, 0}},
			{name: "modelled from shapes, the paper's scale", values: []float64{times(m.PaperParams), times(m.PaperSaved), times(m.PaperFLOPs)}},
			{name: "planned memory of what is trained here", values: []float64{0, times(m.Kept), 0}},
		},
	}
	var gains []float64
	for i := range accuracies[0] {
		gains = append(gains, accuracies[1][i]-accuracies[0][i])
	}
	difference := &dotPanel{title: "difference, pairs of one seed", y: "percentage points", names: []string{late + " - " + early}, groups: [][]float64{gains}, zero: true}
	if lo, hi, ok := pairs(accuracies[1], accuracies[0]).interval(0.95); ok {
		difference.spread = []spread{{0, lo, hi}}
	}
	return []axes{
		bill,
		&dotPanel{title: "final accuracy", y: "held-out accuracy (%)", names: []string{early, late}, groups: accuracies, spread: intervals},
		difference,
	}
}
