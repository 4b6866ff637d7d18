package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"gpipebench/gpipe"
)

// accuracySpec is consistency_accuracy.yaml.
type accuracySpec struct {
	head `yaml:",inline"`
	// Margin, in percentage points, is the largest mean difference of accuracy to
	// the baseline that counts as none.
	Margin float64 `yaml:"margin" want:">0..100"`
	// Level is that of the tests for equivalence.
	Level float64 `yaml:"level" want:">0..0.499"`
	// Setups are what is compared; the first is the baseline.
	Setups   []setupSpec                `yaml:"setups"`
	Profiles map[string]accuracyProfile `yaml:"profiles"`

	setups []Setup
}

type accuracyProfile struct {
	Expected span         `yaml:"expected"`
	Seeds    []uint64     `yaml:"seeds"`
	Training trainingSpec `yaml:"training"`
}

// accuracy trains a network with batch norm to the end at several M, over
// seeds.
type accuracy struct {
	spec accuracySpec
	text string
}

func loadAccuracy(from ...SpecFile) (Experiment, error) {
	a := &accuracy{}
	var err error
	a.text, err = loadSpec("consistency_accuracy.yaml", from, &a.spec, a.check)
	return a, err
}

func (a *accuracy) check() *specProblem {
	if len(a.spec.Setups) < 2 {
		return at(errors.New("want a baseline and something to compare"), "setups")
	}
	a.spec.setups = nil
	for i, s := range a.spec.Setups {
		setup, err := s.setup()
		switch {
		case err != nil:
			return at(err, "setups", fmt.Sprint(i))
		case i == 0 && (setup.Partitions != 1 || setup.MicroBatches != 1):
			return at(errors.New("want K = 1 and M = 1, the baseline"), "setups", "0")
		case setup.Device != gpipe.Host:
			return at(errors.New("trainings run beside one another: want host devices"), "setups", fmt.Sprint(i))
		}
		a.spec.setups = append(a.spec.setups, setup)
	}
	return checkTrials(a.spec.Profiles, func(p accuracyProfile) trainingSpec { return p.Training })
}

// checkTrials reports a profile whose training has no steps.
func checkTrials[P any](profiles map[string]P, of func(P) trainingSpec) *specProblem {
	if p := checkProfiles(profiles); p != nil {
		return p
	}
	for _, name := range Profiles {
		if training := of(profiles[name]); training.Steps < 1 {
			return at(errors.New("want 1 or more"), "profiles", name, "training", "steps")
		}
	}
	return nil
}

func (a *accuracy) ID() string    { return a.spec.Experiment }
func (a *accuracy) Title() string { return a.spec.Title }

func (a *accuracy) Expected(profile string) time.Duration {
	return time.Duration(a.spec.Profiles[profile].Expected)
}

func (a *accuracy) Key(profile string) Key {
	return key(a.ID(), profile, a.text)
}

func (a *accuracy) arms(p accuracyProfile) []arm {
	var arms []arm
	for _, s := range a.spec.setups {
		arms = append(arms, arm{
			name:     fmt.Sprintf("K=%d M=%d", s.Partitions, s.MicroBatches),
			training: func(seed uint64) Training { return p.Training.training("synthetic", s, seed) },
		})
	}
	return arms
}

func (a *accuracy) Measure(ctx context.Context, log *Log, p Progress) error {
	profile, err := profileOf(a.spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	return runTrials(ctx, a.ID(), a.arms(profile), profile.Seeds, log, p)
}

// comparison is an arm's accuracy held against the baseline's.
type comparison struct {
	paired
	equivalence float64 // p value at the margin
	within      int     // runs within two standard deviations of the baseline's mean
	mean        bool    // the mean is within them
}

func compare(own, base []float64, margin float64) comparison {
	c := comparison{paired: pairs(own, base)}
	c.equivalence = c.paired.equivalence(margin)
	center, sd := meanAndSD(base)
	inside := func(x float64) bool { return math.Abs(x-center) <= 2*sd }
	for _, x := range own {
		if inside(x) {
			c.within++
		}
	}
	m, _ := meanAndSD(own)
	c.mean = inside(m)
	return c
}

// says is the outcome in words: what was shown, and if nothing, that. Both may
// be seen at once: a difference that is not 0 and is within the margin.
func (c comparison) says(level float64) string {
	lo, hi, ok := c.interval(0.95)
	differs := ok && (lo > 0 || hi < 0)
	switch {
	case c.equivalence < level && differs:
		return "equivalent, though not equal"
	case c.equivalence < level:
		return "equivalent"
	case differs:
		return "different"
	}
	return "inconclusive"
}

func (a *accuracy) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(a.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all, err := readTrials(log, a.arms(profile), profile.Seeds)
	if err != nil {
		return nil, err
	}
	var refs []trials
	if reference != nil {
		if p, ok := a.spec.Profiles[reference.Key.Profile]; ok {
			if refs, err = readTrials(reference, a.arms(p), p.Seeds); err != nil {
				refs = nil // of another spec
			}
		}
	}
	base := all[0].accuracies()
	baseMean, baseSD := meanAndSD(base)
	t, n := profile.Training, len(profile.Seeds)
	table := &Table{
		ID: "consistency-accuracy", Title: a.spec.Title,
		Caption: []string{
			fmt.Sprintf("%v, %d parameters, %d steps of %d procedural images, %s; trained to the end %d times at each M, with the same seeds. Accuracy on %d held-out images, by the moving averages.",
				t.Model, all[0].runs[0].Params, t.Steps, t.Batch, t.Optimizer, n, all[0].runs[0].Targets),
			fmt.Sprintf("The difference to M = 1 is the mean over pairs of one seed, in percentage points with its 95%% interval (Student's t). Equivalence is tested by two one-sided tests at %g%% against a margin of %g points, which was fixed beforehand.",
				100*a.spec.Level, a.spec.Margin),
			"[V1] is the paper's own criterion (first version, section 4.3.1): accuracy within two standard deviations of the baseline's mean. Batch norm sees one micro-batch at a time, so that its statistics are the noisier the smaller that is.",
		},
		Columns: []Column{
			{"training", true}, {"micro-batch", true}, {"accuracy", false}, {"sd", false}, {"runs within [V1]", false}, {"mean within", true},
			{"difference to M = 1 (points)", false}, {"p of equivalence", false}, {"smallest margin to hold", false}, {"outcome", true},
		},
	}
	if reference != nil {
		table.Columns = append(table.Columns, Column{Name: "reference accuracy"})
	}
	var names []string
	var groups, toBase [][]float64
	var means, gaps []spread
	says := map[string][]string{}
	for i, arm := range all {
		own := arm.accuracies()
		setup := a.spec.setups[i]
		name := arm.name
		if i == 0 {
			name = "M=1, no pipeline"
		}
		row := []string{name, sizesText(gpipe.MicroBatchSizes(t.Batch, setup.MicroBatches)), meanText(own, 2) + "%", sdText(own, 2), "", "", "baseline", "", "", ""}
		names, groups = append(names, arm.name), append(groups, own)
		means = addInterval(means, i, sampled(own))
		if i > 0 {
			c := compare(own, base, a.spec.Margin)
			outcome := c.says(a.spec.Level)
			says[outcome] = append(says[outcome], fmt.Sprintf("M = %d", setup.MicroBatches))
			row[4], row[5] = fmt.Sprintf("%d of %d", c.within, n), yesOrNo(c.mean)
			row[6], row[7], row[8], row[9] = c.text(2), fmt.Sprintf("%.3f", c.equivalence), "-", outcome
			if margin, ok := c.smallestMargin(a.spec.Level); ok {
				row[8] = fmt.Sprintf("%.2f", margin)
			}
			toBase = append(toBase, differences(own, base))
			gaps = addInterval(gaps, i-1, c.paired)
		}
		if reference != nil {
			cell := ""
			if i < len(refs) {
				cell = meanText(refs[i].accuracies(), 2) + "%"
			}
			row = append(row, cell)
		}
		table.Add(row...)
	}
	table.Notes = append(table.Notes, a.verdict(says))
	table.Notes = append(table.Notes, fewSeedsNote(n)...)
	each := eachTrial("consistency-accuracy-runs", "Final accuracy: each training", all, profile.Seeds)
	files, err := plotFiles("consistency-accuracy", a.spec.Title, []axes{
		&dotPanel{title: "final accuracy", y: "held-out accuracy (%)", names: names, groups: groups, spread: means,
			band: &band{"M = 1: mean ± 2 standard deviations", baseMean - 2*baseSD, baseMean + 2*baseSD}},
		&dotPanel{title: "difference to M = 1, pairs of one seed", y: "percentage points", names: names[1:], groups: toBase, spread: gaps,
			band: &band{fmt.Sprintf("margin: ± %g points", a.spec.Margin), -a.spec.Margin, a.spec.Margin}},
	})
	return &Report{Tables: []*Table{table, each}, Files: files}, err
}

// verdict lists the values of M by outcome. None of them fails the run: that
// micro-batches are normalised each by itself is part of the method, and what it
// does to accuracy is what is asked here.
func (a *accuracy) verdict(says map[string][]string) string {
	var parts []string
	for _, o := range []struct{ outcome, means string }{
		{"equivalent", "equivalent to M = 1 within %g points"},
		{"equivalent, though not equal", "equivalent to M = 1 within %g points, though the difference is not 0"},
		{"inconclusive", "inconclusive, as neither a difference nor its absence beyond %g points was shown"},
		{"different", "different from M = 1, maybe by more than %g points"},
	} {
		if ms := says[o.outcome]; len(ms) > 0 {
			parts = append(parts, strings.Join(ms, ", ")+": "+fmt.Sprintf(o.means, a.spec.Margin))
		}
	}
	return "Verdict: " + strings.Join(parts, "; ") + "."
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// sizesText is the sizes of micro-batches, once if they are alike.
func sizesText(sizes []int) string {
	if sizes[0] == sizes[len(sizes)-1] {
		return fmt.Sprint(sizes[0])
	}
	return fmt.Sprintf("%d or %d", sizes[len(sizes)-1], sizes[0])
}
