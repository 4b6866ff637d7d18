package gpipe

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// thresholdMade is a log of made-up runs of the quick profile: which of them survive.
func thresholdMade(t *testing.T, e *threshold, survive func(variant string, seed, rate int) bool) *records.Log {
	t.Helper()
	p := e.Spec.Profiles["quick"]
	log := records.New(e.Key("quick"))
	for _, v := range e.Spec.Variants {
		for j, rate := range p.Depths[0].Rates {
			for i, seed := range p.Seeds {
				r := &thresholdRecord{Losses: []float64{6}, NonFinite: "loss of the mini-batch is NaN", Steps: 27, Params: 3}
				if survive(v.Name, i, j) {
					r = &thresholdRecord{Losses: []float64{4, 3}, HeldOut: 2, Steps: 40, Params: 3}
				} else if v.Name == "clipped logits" {
					r = &thresholdRecord{Losses: []float64{4, 4.6}, HeldOut: 4.6, Steps: 40, Params: 3} // no better than guessing
				}
				if err := log.Add(e.arm(p, v, p.Depths[0], rate).Sample(seed), seed, r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return log
}

// A threshold is the last rate before the first that fails, seed by seed; factors are of
// the same seed; what is at an end of the grid is only bounded.
func TestThresholds(t *testing.T) {
	e := labtest.Loaded[*threshold](t, Paper.Experiment("stability-threshold").Load)
	p := e.Spec.Profiles["quick"]
	rates := []float64{0.008, 0.016, 0.032, 0.064, 0.128}
	p.Seeds, p.Depths = []uint64{1, 2, 3, 4, 5, 6}, []thresholdDepth{{"deep", 5, rates}}
	e.Spec.Profiles["quick"] = p
	last := len(rates) - 1
	log := thresholdMade(t, e, func(variant string, seed, rate int) bool {
		switch variant {
		case "neither":
			return rate < 1
		case "both":
			return rate < 2+seed // 2, 3, ... rates: in the end all of them
		case "scaled init":
			return rate != 1 // a hole: what is beyond it does not count
		}
		return false
	})
	all, err := e.outcomes(log, p)
	if err != nil {
		t.Fatal(err)
	}
	first := thresholdBounds{rates[0], rates[1]}
	none := thresholdBounds{0, rates[0]}
	for _, o := range all {
		want, ends := slices.Repeat([]thresholdBounds{first}, 6), 0
		switch o.stabilityVariant.Name {
		case "clipped logits":
			want, ends = slices.Repeat([]thresholdBounds{none}, 6), 6
		case "both":
			for i := range want {
				if 1+i < last {
					want[i] = thresholdBounds{rates[1+i], rates[2+i]}
				} else {
					want[i] = thresholdBounds{rates[last], math.Inf(1)}
					ends++
				}
			}
		}
		if !slices.Equal(o.thresholds, want) || o.ends != ends {
			t.Errorf("%s: thresholds %v, %d at an end; want %v, %d", o.stabilityVariant.Name, o.thresholds, o.ends, want, ends)
		}
	}
	both := all[3].factors(e.base(all, all[3]))
	if got, want := both[:3], []thresholdBounds{{1, 4}, {2, 8}, {4, 16}}; !slices.Equal(got, want) {
		t.Errorf("factors %v, want %v", got, want)
	}
	r, err := e.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.Tables[0].Write(&text, "csv"); err != nil {
		t.Fatal(err)
	}
	// Of six seeds the interval is from the least to the most: 1 to what the grid does not
	// bound; the median lies between the fourth, from 4 to 16, and the fifth, from 8 on.
	for _, want := range []string{
		`,neither,3,0.008 to 0.016,"[0.008, 0.016]",1.00,-,6 of 30,0 of 6,1.00`,
		`,clipped logits,3,≤ 0.008,"[0, 0.008]",≤ 1.00,"[0, 1.00]",0 of 30,6 of 6,≤ 1.00`,
		`,both,3,≥ 0.096,"[0.016, ∞)",≥ 6.00,"[1.00, ∞)",`,
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no row %s in\n%s", want, text.String())
		}
	}
	labtest.CheckPlots(t, r)
}

// Whatever a bounded value is, the median and its interval are within what is printed.
func TestThresholdMedianOfBounds(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		values         []thresholdBounds
		text, interval string
	}{
		{[]thresholdBounds{{2, 2}}, "2.00", "-"},
		{[]thresholdBounds{{2, inf}, {1, 1}, {4, 4}}, "2.00 to 4.00", "-"},
		{[]thresholdBounds{{2, inf}, {1, 1}, {4, inf}}, "≥ 2.00", "-"},
		{[]thresholdBounds{{0, 2}, {0, 3}, {4, 4}}, "≤ 3.00", "-"},
		{[]thresholdBounds{{0, 1}, {2, 2}, {4, inf}}, "2.00", "-"}, // neither end matters
		{[]thresholdBounds{{0, inf}, {2, 2}, {3, 3}}, "2.00 to 3.00", "-"},
		{[]thresholdBounds{{0, inf}, {0, inf}, {3, 3}}, "-", "-"},
		{[]thresholdBounds{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}}, "3.50", "[1.00, 6.00]"},
		{[]thresholdBounds{{0, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, inf}}, "3.50", "[0, ∞)"},
		// Of nine values the interval is from the second to the eighth: one at each end may
		// be anything.
		{[]thresholdBounds{{0, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}, {8, 8}, {9, inf}}, "5.00", "[2.00, 8.00]"},
	} {
		got := thresholdMedian(c.values, thresholdPrintFactor)
		if got[0].Text != c.text || got[1].Text != c.interval {
			t.Errorf("%v: %v %v, want %s %s", c.values, got[0], got[1], c.text, c.interval)
		}
	}
	for _, c := range []struct{ a, b, want thresholdBounds }{
		{thresholdBounds{4, 4}, thresholdBounds{2, 2}, thresholdBounds{2, 2}},
		{thresholdBounds{4, inf}, thresholdBounds{2, 2}, thresholdBounds{2, inf}},
		{thresholdBounds{4, 4}, thresholdBounds{0, 2}, thresholdBounds{2, inf}},
		{thresholdBounds{4, 4}, thresholdBounds{2, inf}, thresholdBounds{0, 2}},
		{thresholdBounds{0, 4}, thresholdBounds{2, 2}, thresholdBounds{0, 2}},
		{thresholdBounds{4, inf}, thresholdBounds{4, inf}, thresholdBounds{0, inf}},
		{thresholdBounds{0, 4}, thresholdBounds{0, 4}, thresholdBounds{0, inf}},
	} {
		if got := c.a.over(c.b); got != c.want {
			t.Errorf("%v over %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// The smallest profile is measured: no variant survives its largest rate. A run is the
// same where it was interrupted.
func TestThresholdMeasures(t *testing.T) {
	e := labtest.Loaded[*threshold](t, Paper.Experiment("stability-threshold").Load)
	log := records.New(e.Key("smoke"))
	if err := e.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Report(log, nil); err != nil {
		t.Fatal(err)
	}
	p := e.Spec.Profiles["smoke"]
	all, err := e.outcomes(log, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if e.Spec.Survives.survived(o.runs[1][0]) {
			t.Errorf("%s survives a rate of %g", o.stabilityVariant.Name, o.Rates[1])
		}
		if r := o.runs[0][0]; r.NonFinite == "" && len(r.Losses) != p.Training.Steps/e.Spec.Survives.Window {
			t.Errorf("%s: %d means of losses", o.stabilityVariant.Name, len(r.Losses))
		}
	}
}

// thresholdInterrupting stops work after some samples.
type thresholdInterrupting struct {
	progress.Silent
	left int
	stop func()
}

func (i *thresholdInterrupting) Advance(string) {
	if i.left--; i.left == 0 {
		i.stop()
	}
}

// What was interrupted goes on with the same command, and ends with the same records.
func TestThresholdGoesOn(t *testing.T) {
	e := labtest.Loaded[*threshold](t, Paper.Experiment("stability-threshold").Load)
	whole := records.New(e.Key("smoke"))
	if err := e.Measure(t.Context(), whole, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	open := func() *records.Log {
		log, err := records.Open(records.File(dir, e.ID()), e.Key("smoke"), false)
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	log := open()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := e.Measure(ctx, log, &thresholdInterrupting{left: 3, stop: stop})
	if err == nil || len(log.Names) == len(whole.Names) {
		t.Fatalf("not interrupted: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	log = open()
	defer log.Close()
	if err := e.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range whole.Names {
		var a, b thresholdRecord
		if err := errors.Join(whole.Get(name, &a), log.Get(name, &b)); err != nil {
			t.Fatal(err)
		}
		if a.Seconds, b.Seconds = 0, 0; !slices.Equal(a.Losses, b.Losses) || a.HeldOut != b.HeldOut || a.NonFinite != b.NonFinite || a.Steps != b.Steps {
			t.Errorf("%s: %+v, and %+v where it was interrupted", name, a, b)
		}
	}
	if _, err := os.Stat(dir + "/snapshots"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("snapshots are left: %v", err)
	}
}

func TestThresholdRefuses(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("stability-threshold"), [][3]string{
		{"base: neither", "base: nosuch", `base: no variant "nosuch"`},
		{"rates: [0.01, 1]", "rates: [1, 0.01]", "rates: want two or more, from the smallest to the largest"},
		{"rates: [0.01, 1]", "rates: [1]", "rates: want two or more"},
		{"rates: [0.01, 1]", "rates: [0, 1]", "rates"},
		{"rates: [0.01, 1]", "rates: [1, 1]", "rates"},
		{"steps: 40", "steps: 50", "want a multiple of 20, the window of survives"},
		{"device: host", "device: emulated", "want host devices"},
		{"name: transformer, layers: 2", "name: transformer-lm, layers: 2", "model"},
		{"{name: shallow, layers: 8", "{name: deep, layers: 8", "depths"},
		{"survives: {window: 20, loss: 4.5}", "survives: {window: 20, loss: 0}", "loss"},
	})
}
