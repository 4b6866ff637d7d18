package mlperf

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
)

// epochsMade is a training that reaches the accuracy after a number of epochs; with 0 it does not.
func epochsMade(epochs int) trained.Reached {
	return trained.Reached{Epochs: epochs, Accuracies: slices.Repeat([]float64{0.5}, max(epochs, 1)), SHA256: strings.Repeat("ab", 32), Params: 7}
}

// epochsMadeUp is a log of made-up trainings: pilots by entry and settings, others by entry and the
// place of the seed.
func epochsMadeUp(t *testing.T, e *epochs, name string, pilot func(epochsEntry, epochsSettings) int, of func(epochsEntry, int) int) *records.Log {
	t.Helper()
	log := records.New(e.Key(name))
	p := e.Spec.Profiles[name]
	for _, n := range slices.Concat(e.curve(p), e.others(p, p.Batches[len(p.Batches)-2])) {
		for _, s := range n.grid {
			arm := e.arm(p, n, s)
			add := func(seed uint64, epochs int) {
				if err := log.Add(arm.Sample(seed), seed, epochsMade(epochs)); err != nil {
					t.Fatal(err)
				}
			}
			for _, seed := range p.Pilots {
				add(seed, pilot(n, s))
			}
			for i, seed := range p.Seeds {
				add(seed, of(n, i))
			}
		}
	}
	return log
}

// A training that does not reach the accuracy opens the interval to the side to which its
// epochs may go; a way with which no pilot converges is trained all the same, beside the first;
// where none of the first does there is no report.
func TestEpochsUnreached(t *testing.T) {
	e := labtest.Loaded[*epochs](t, Paper.Experiment("lars-epochs").Load)
	p := e.Spec.Profiles["quick"]
	pilot := func(n epochsEntry, s epochsSettings) int {
		if n.batch == p.Batches[len(p.Batches)-1] {
			return 0
		}
		return s.Epochs
	}
	seeds := func(missing string) func(epochsEntry, int) int {
		return func(n epochsEntry, seed int) int {
			if n.Name == missing && seed == 0 {
				return 0
			}
			return 2
		}
	}
	for missing, want := range map[string]string{"scaled": "[-Inf, ", "unscaled": ", +Inf]"} {
		r, err := e.Report(epochsMadeUp(t, e, "quick", pilot, seeds(missing)), nil)
		if err != nil {
			t.Fatal(err)
		}
		ways := r.Tables[0]
		if got := ways.Rows[1][ways.Column("difference")]; !strings.Contains(got.Text, want) || len(got.Interval) != 2 {
			t.Errorf("%s misses once: %v, want %s", missing, got, want)
		}
		row := ways.Rows[0]
		if missing == "unscaled" {
			row = ways.Rows[1]
		}
		if got := row[ways.Column("reached")].Text + " " + row[ways.Column("epochs")].Text; !strings.HasPrefix(got, "5 of 6 > ") {
			t.Errorf("%s misses once: %s", missing, got)
		}
	}
	r, err := e.Report(epochsMadeUp(t, e, "quick", func(n epochsEntry, s epochsSettings) int {
		if n.Name == "tuned" {
			return 0
		}
		return pilot(n, s)
	}, seeds("")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Tables[0].Rows[2][r.Tables[0].Column("epochs")].Text; got != "2.0" {
		t.Errorf("no pilot converges: %s", got)
	}
	log := epochsMadeUp(t, e, "quick", func(epochsEntry, epochsSettings) int { return 0 }, seeds(""))
	if _, err := e.Report(log, nil); err == nil || !strings.Contains(err.Error(), "want a lower accuracy") {
		t.Errorf("none converges: %v", err)
	}
}

// Settings with which one pilot of two does not reach the accuracy are not chosen, however
// few epochs the other takes.
func TestEpochsChosen(t *testing.T) {
	e := labtest.Loaded[*epochs](t, Paper.Experiment("lars-epochs").Load)
	p := e.Spec.Profiles["full"]
	n := p.entry(e.Spec.Ways[0], p.Batches[0])
	log := records.New(e.Key("full"))
	for i, s := range n.grid {
		for j, seed := range p.Pilots {
			epochs := 10 + (i+5)%len(n.grid) // the fewest at len-5
			if i == 0 {
				epochs = j
			}
			if err := log.Add(e.arm(p, n, s).Sample(seed), seed, epochsMade(epochs)); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := e.chosen(p, log, []epochsEntry{n})
	if err != nil || len(p.Pilots) != 2 || all[0].best != len(n.grid)-5 {
		t.Errorf("%v, %d pilots, chosen %d, want %d", err, len(p.Pilots), all[0].best, len(n.grid)-5)
	}
}

// Where not all pilots of any settings reach the accuracy, the settings with most that do come
// nearest, of these those with the highest accuracies.
func TestEpochsNearest(t *testing.T) {
	c := epochsChoice{pilots: [][]*trained.Reached{
		{{Accuracies: []float64{0.6, 0.5}}, {Accuracies: []float64{0.69}}},
		{{Accuracies: []float64{0.7}, Epochs: 9}, {Accuracies: []float64{0.1}}},
		{{Accuracies: []float64{0.71}, Epochs: 9}, {Accuracies: []float64{0.3, 0.2}}},
		{{NonFinite: "loss"}, {NonFinite: "loss"}},
	}}
	for _, want := range []int{2, 1, 0, 0} {
		if got := c.nearest(); got != want {
			t.Errorf("%d, want %d", got, want)
		}
		c.pilots = slices.Delete(c.pilots, want, want+1)
	}
}

// Trainings have whole epochs, the rate rises to the settings' and falls to nearly 0, and
// batch norm sees as many examples whatever the mini-batch. All ways have as many trials.
func TestEpochsArms(t *testing.T) {
	e := labtest.Loaded[*epochs](t, Paper.Experiment("lars-epochs").Load)
	for name, p := range e.Spec.Profiles {
		all := slices.Concat(e.curve(p), e.others(p, p.Batches[0]))
		for _, n := range all {
			if len(n.grid) != len(all[0].grid) {
				t.Errorf("%s, %s: %d trials, want %d", name, n.Name, len(n.grid), len(all[0].grid))
			}
			for _, s := range n.grid {
				tr := e.arm(p, n, s).Training(1)
				rate, err := nn.LRUnits{}.Parse(tr.LRSchedule, tr.LR)
				if err != nil {
					t.Fatal(err)
				}
				highest, at := 0.0, 0
				for step := 1; step <= tr.Steps; step++ {
					if r := rate.Rate(step); r > highest {
						highest, at = r, step
					}
				}
				warm := s.WarmUp * float64(tr.Steps)
				if last := rate.Rate(tr.Steps); highest != s.Rate || math.Abs(float64(at)-max(warm, 1)) > 0.5 || !(last > 0) || tr.Steps > 8 && last > 0.1*highest {
					t.Errorf("%s, %+v: highest %v at %d of %d, the last %v", name, s, highest, at, tr.Steps, last)
				}
				if tr.Steps*tr.Batch != s.Epochs*p.Images.Train || tr.Setup.MicroBatches*e.Spec.Statistics != tr.Batch {
					t.Errorf("%s, %+v: %d steps of %d in %d", name, s, tr.Steps, tr.Batch, tr.Setup.MicroBatches)
				}
			}
		}
	}
}

// A training ends with the first epoch whose evaluation is accurate enough, as one that goes
// on to its end shows; with another accuracy it has other epochs, and the same bits up to
// there.
func TestEpochsTrain(t *testing.T) {
	e := labtest.Loaded[*epochs](t, Paper.Experiment("lars-epochs").Load)
	p := e.Spec.Profiles["smoke"]
	n := p.entry(e.Spec.Ways[0], p.Batches[0])
	tr := e.arm(p, n, n.grid[len(n.grid)-1]).Training(1)
	whole, err := tr.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	for _, v := range append(whole.Evals, *whole.Eval) {
		want = append(want, v.Accuracy)
	}
	most := slices.Max(want)
	first := slices.Index(want, most)
	r, err := trained.Until(t.Context(), tr, 100*most)
	if err != nil || r.Epochs != first+1 || !slices.Equal(r.Accuracies, want[:first+1]) || r.Check() != nil {
		t.Errorf("%v, %+v, want %v up to epoch %d", err, r, want, first+1)
	}
	r, err = trained.Until(t.Context(), tr, 100*most+0.1)
	if err != nil || r.Epochs != 0 || !slices.Equal(r.Accuracies, want) || r.SHA256 != whole.WeightsSHA256 || r.Check() != nil {
		t.Errorf("%v, %+v, want %v without end", err, r, want)
	}
	// What diverges has not reached it, and is no error.
	tr.Optimizer, tr.LR = "sgd", 1e30
	if r, err = trained.Until(t.Context(), tr, 100*most+0.1); err != nil || r.NonFinite == "" || r.Epochs != 0 || r.Check() != nil {
		t.Errorf("%v, %+v, want one that diverges", err, r)
	}
}

// The smallest profile is measured, and once more, when nothing is left to do.
func TestEpochsMeasure(t *testing.T) {
	e := labtest.Loaded[*epochs](t, Paper.Experiment("lars-epochs").Load)
	log := records.New(e.Key("smoke"))
	if err := e.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	n := len(log.Names)
	if err := e.Measure(t.Context(), log, progress.Silent{}); err != nil || len(log.Names) != n {
		t.Errorf("again: %v, %d samples after %d", err, len(log.Names), n)
	}
	if _, err := e.Report(log, nil); err != nil {
		t.Error(err)
	}
}

func TestEpochsSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("lars-epochs"), [][3]string{
		{"device: host", "device: emulated", "host devices"},
		{"checkpoint: never,", "m: 2, checkpoint: never,", "want none"},
		{"momenta: [0.929, ", "momenta: [", "as many as the first's"},
		{"optimizer: lars\n", "optimizer: adam\n", "want lars or lars-unscaled"},
		{"optimizer: lars\n", "optimizer: \"lars:eps=1\"\n", "want lars or lars-unscaled"},
		{"{batch: 2048, epochs: 38.4}", "{batch: 1024, epochs: 38.4}", "the smallest mini-batch first"},
		{"batches: [16, 32, 64]", "batches: [16, 64, 32]", "larger and larger"},
		{"batches: [16, 32, 64]", "batches: [24, 32, 64]", "multiple of statistics"},
		{"batches: [16, 32, 64]", "batches: [16, 48]", "divisor of the 64 training images"},
		{"seeds: [1, 2]", "seeds: [1, 101]", "other seeds"},
		{"epochs: [2, 3]", "epochs: [3, 2]", "shortest schedule first"},
		{"{name: resnet50, width: 4, image: 16, classes: 4, zero_init: true}", "{name: transformer-lm, layers: 1, dim: 8, ff: 8, heads: 1, vocab: 8, seq: 8}", "network for images"},
	})
}
