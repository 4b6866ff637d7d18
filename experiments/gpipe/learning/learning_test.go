package learning

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/lab/plot"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// Losses are drawn in bits, with what was held out and what both are held
// against.
func TestLearningPanel(t *testing.T) {
	s := record{Bytes: 10, Whole: trained.Whole{Result: &train.Result{
		Losses: make([]float64, 250), Eval: &train.Evaluation{BitsPerToken: 1.75},
		Yardsticks: []datasets.Yardstick{{Name: "uniform", Bits: 6}, {Name: "entropy", Bits: 1.5, Floor: true}},
	}}}
	for i := range s.Losses {
		s.Losses[i] = 2 * math.Ln2
	}
	p := s.panel("a text")
	if p.Y != "bits per byte" || !strings.Contains(p.X, "means of 3") {
		t.Errorf("axes %q, %q", p.X, p.Y)
	}
	curve, end := p.Series[0].Lines[0], p.Series[1].Lines[0]
	if len(curve) != 84 || curve[0].X != 3 || curve[83].X != 250 || math.Abs(curve[83].Y-2) > 1e-12 {
		t.Errorf("%d points from %v to %v", len(curve), curve[0], curve[len(curve)-1])
	}
	if want := []plot.Point{{X: 250, Y: 1.75}}; !slices.Equal(end, want) {
		t.Errorf("held out %v, want %v", end, want)
	}
	if want := []plot.Level{{Name: "uniform", Y: 6}, {Name: "entropy, floor", Y: 1.5}}; !slices.Equal(p.Levels, want) {
		t.Errorf("levels %v, want %v", p.Levels, want)
	}
}
