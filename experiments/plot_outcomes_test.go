package experiments

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Losses are drawn in bits, with what was held out and what both are held
// against.
func TestLearningPanel(t *testing.T) {
	s := learningSample{Bytes: 10, TrainResult: &TrainResult{
		Losses: make([]float64, 250), Eval: &Evaluation{BitsPerToken: 1.75},
		Yardsticks: []Yardstick{{Name: "uniform", Bits: 6}, {Name: "entropy", Bits: 1.5, Floor: true}},
	}}
	for i := range s.Losses {
		s.Losses[i] = 2 * math.Ln2
	}
	p := s.panel("a text")
	if p.y != "bits per byte" || !strings.Contains(p.x, "means of 3") {
		t.Errorf("axes %q, %q", p.x, p.y)
	}
	curve, end := p.series[0].lines[0], p.series[1].lines[0]
	if len(curve) != 84 || curve[0].x != 3 || curve[83].x != 250 || math.Abs(curve[83].y-2) > 1e-12 {
		t.Errorf("%d points from %v to %v", len(curve), curve[0], curve[len(curve)-1])
	}
	if want := []point{{250, 1.75}}; !slices.Equal(end, want) {
		t.Errorf("held out %v, want %v", end, want)
	}
	if want := []level{{"uniform", 6}, {"entropy, floor", 1.5}}; !slices.Equal(p.levels, want) {
		t.Errorf("levels %v, want %v", p.levels, want)
	}
}

// Every language has the BLEU of all that translate it, and a network's colour
// is that of its losses.
func TestTranslationPanels(t *testing.T) {
	sample := func(loss float64, bleu ...float64) *translationSample {
		r := &TrainResult{Losses: []float64{loss}, Eval: &Evaluation{}, Baselines: []Baseline{{Name: "copy", Languages: []float64{1, 2}}, {Name: "dictionary", Languages: []float64{3, 4}}}}
		for i, b := range bleu {
			r.Eval.Languages = append(r.Eval.Languages, LanguageScore{Name: []string{"high", "low"}[i], BLEU: b})
		}
		return &translationSample{TrainResult: r}
	}
	panels := translationPanels(sample(0.5, 90, 80), sample(2.5, 0, 0.5))
	scores, losses := panels[0].(*barPanel), panels[1].(panel)
	var values [][]float64
	for _, s := range scores.series {
		values = append(values, s.values)
	}
	if want := [][]float64{{1, 2}, {3, 4}, {0, 0.5}, {90, 80}}; !reflect.DeepEqual(values, want) || !slices.Equal(scores.names, []string{"high", "low"}) {
		t.Errorf("%v of %v, want %v", values, scores.names, want)
	}
	for i, want := range []float64{2.5, 0.5} {
		s := losses.series[i]
		if s.name != scores.series[2+i].name || s.lines[0][0].y != want {
			t.Errorf("losses of %s: %v, want %v of %s", s.name, s.lines, want, scores.series[2+i].name)
		}
	}
}

// What is drawn of a run is what it is judged by.
func TestStabilityPanels(t *testing.T) {
	e := &stability{}
	e.spec.Diverges = divergence{After: 2, Window: 2, Loss: 4.5}
	run := func(heldOut float64, losses ...float64) *stabilityRun {
		return &stabilityRun{Losses: losses, GradNorms: losses, HeldOut: heldOut, Probes: []probed{{Step: 0, Hidden: 3, Largest: 7}}}
	}
	panels := e.panels([]*outcome{
		{stabilityVariant: stabilityVariant{Name: "neither"}, runs: []*stabilityRun{run(6, 4, 6, 8), run(0, 4)}, diverged: []int{2, 2}},
		{stabilityVariant: stabilityVariant{Name: "both"}, runs: []*stabilityRun{run(2, 4, 2, 1)}, diverged: []int{0}},
	})
	training, ends := panels[0].(panel), panels[1].(*dotPanel)
	if want := []point{{1, 4}, {2, 5}, {3, 7}}; !slices.Equal(training.series[0].lines[0], want) {
		t.Errorf("losses %v, want means of two: %v", training.series[0].lines[0], want)
	}
	if len(training.levels) != 1 || training.levels[0].y != 4.5 || training.series[1].name != "both" {
		t.Errorf("%+v", training)
	}
	if want := []string{"neither\n2 of 2", "both\n0 of 1"}; !slices.Equal(ends.names, want) {
		t.Errorf("%q, want %q", ends.names, want)
	}
	if want := [][]float64{{6}, {2}}; !reflect.DeepEqual(ends.groups, want) {
		t.Errorf("held-out losses %v, want %v: a run that ended has none", ends.groups, want)
	}
}

// The bill is what late reduction takes, relative to early; the differences are
// those of pairs.
func TestDelayedReductionPanels(t *testing.T) {
	d := &delayed{}
	d.spec.Paper = verbatim{"4", 4}
	m := &delayedMemory{Kept: [2]int64{10, 35}, PaperParams: [2]int64{5, 5}, PaperSaved: [2]int64{100, 390}, PaperFLOPs: [2]int64{2, 7}}
	panels := d.panels(m, [][]float64{{50, 60}, {70, 65}}, nil)
	bill, difference := panels[0].(*barPanel), panels[2].(*dotPanel)
	for i, want := range [][]float64{{1, 4, 0}, {1, 3.9, 3.5}, {0, 3.5, 0}} {
		if !slices.Equal(bill.series[i].values, want) {
			t.Errorf("%s: %v, want %v", bill.series[i].name, bill.series[i].values, want)
		}
	}
	if want := [][]float64{{20, 5}}; !reflect.DeepEqual(difference.groups, want) || len(difference.spread) != 1 || !difference.zero {
		t.Errorf("differences %v (%v), want %v with their interval and 0", difference.groups, difference.spread, want)
	}
}

// Runs of equal weights have one name, those of others another, and no dot lies
// upon another.
func TestHashPanel(t *testing.T) {
	p := &hashPanel{title: "net"}
	for _, r := range []struct {
		k, m int
		hash string
	}{{1, 1, "a"}, {1, 1, "a"}, {2, 4, "b"}, {8, 1, "a"}, {1, 4, "b"}, {1, 4, "c"}} {
		p.add(r.k, r.m, r.hash)
	}
	if got := p.seriesNames(); len(got) != 3 {
		t.Errorf("%q: want 3 hashes", got)
	}
	if got := []int{p.runs[0].hash, p.runs[2].hash, p.runs[3].hash, p.runs[5].hash}; !slices.Equal(got, []int{0, 1, 0, 2}) {
		t.Errorf("hashes %v", got)
	}
	drawn, keys, err := p.plot(inks(p.seriesNames()))
	if err != nil {
		t.Fatal(err)
	}
	if drawn.Title.Text != "net: 6 runs, 3 SHA-256" || len(keys) != 3 {
		t.Errorf("%q, %d entries", drawn.Title.Text, len(keys))
	}
	places := map[point]bool{}
	for _, dots := range p.places() {
		for _, at := range dots {
			places[point{at.X, at.Y}] = true
		}
	}
	if len(places) != len(p.runs) {
		t.Errorf("%d places of %d runs", len(places), len(p.runs))
	}
}
