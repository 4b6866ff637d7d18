package trained

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"gpipebench/datasets"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// SetSpec is a set of images of a profile, which arms name.
type SetSpec struct {
	Data    string                         `yaml:"data" want:"images"`
	Make    string                         `yaml:"make" want:"name,shown,optional"` // targets of make that bring its files
	Classes int                            `yaml:"classes" want:"0.."`              // of synthetic; files say how many they have
	Figures datasets.SyntheticImagesConfig `yaml:"figures"`                         // of synthetic
	// HeldOutOf is of how many images of a class one is for testing, where folders do not say: see
	// datasets.ImageConfig.
	HeldOutOf int `yaml:"held_out_of" want:"0..1000"`
}

// into makes a training one on the set.
func (s SetSpec) into(t *train.Training) {
	t.Data, t.Model.Classes = s.Data, s.Classes
	t.Config.SyntheticImages, t.Config.Images.HeldOutOf = s.Figures, s.HeldOutOf
}

// checkSets refuses sets that lack or have too much, and arms with a set that the profile lacks.
func (f *Frame) checkSets(p Size) *lab.Problem {
	for name, s := range p.Sets {
		var err error
		switch made := s.Data == "synthetic"; {
		case made && s.Classes == 0:
			err = errors.New("want a number of classes of synthetic")
		case !made && (s.Classes != 0 || s.Figures != datasets.SyntheticImagesConfig{}):
			err = errors.New("want classes and figures of synthetic only, since files say what they have")
		}
		if err != nil {
			return lab.At(err, "sets", name)
		}
	}
	for _, a := range f.Arms {
		if _, ok := p.Sets[a.Set]; a.Set != "" && !ok {
			return lab.At(fmt.Errorf("no set %q, which arm %s has", a.Set, a.Name), "sets")
		}
	}
	return nil
}

// setContents is what a set of images was found to be.
type setContents struct {
	Train    int     `json:"train"` // images
	HeldOut  int     `json:"held_out"`
	Classes  int     `json:"classes"`
	Majority float64 `json:"majority"`              // the share of the most frequent class of what is held out
	SHA256   string  `json:"data_sha256,omitempty"` // of files: see datasets.Digest
}

// Check requires images of both splits.
func (c *setContents) Check() error {
	if c.Train < 1 || c.HeldOut < 1 || c.Classes < 2 || !(c.Majority > 0 && c.Majority <= 1) {
		return fmt.Errorf("%d and %d images of %d classes, the most frequent a share of %g", c.Train, c.HeldOut, c.Classes, c.Majority)
	}
	return nil
}

func setSample(name string) string { return "set, " + name }

// readSets reads every set before anything is trained, and records what it is. A set that differs from
// its record is refused.
func (f *Frame) readSets(ctx context.Context, size Size, log *records.Log) error {
	for _, name := range slices.Sorted(maps.Keys(size.Sets)) {
		i := slices.IndexFunc(f.Arms, func(a ArmSpec) bool { return a.Set == name })
		if i < 0 || ctx.Err() != nil {
			continue
		}
		now, err := contentsOf(f.Training(size, f.Arms[i], f.Seed))
		switch bring := size.Sets[name].Make; {
		case errors.Is(err, fs.ErrNotExist) && bring != "":
			return fmt.Errorf("%s, %s: %w: want `make %s` first, which brings it, or --spec with a copy of the spec that names other data", f.Experiment, name, err, bring)
		case err != nil:
			return fmt.Errorf("%s, %s: %w", f.Experiment, name, err)
		}
		if !log.Has(setSample(name)) {
			if err := log.Add(setSample(name), f.Seed, now); err != nil {
				return err
			}
			continue
		}
		var was setContents
		if err := log.Get(setSample(name), &was); err != nil {
			return err
		}
		if was != *now {
			return fmt.Errorf("%s, %s: it has %d and %d images of %d classes, digest %.16s, and its record %d and %d of %d, digest %.16s: want the same images, or --fresh, which measures anew",
				f.Experiment, name, now.Train, now.HeldOut, now.Classes, now.SHA256, was.Train, was.HeldOut, was.Classes, was.SHA256)
		}
	}
	return ctx.Err()
}

// contentsOf reads the images of a training.
func contentsOf(t train.Training) (*setContents, error) {
	s, err := t.Source()
	if err != nil {
		return nil, err
	}
	c := &setContents{Train: s.Batches(datasets.Train, 1), HeldOut: s.Batches(datasets.HeldOut, 1), Classes: s.Vocab(), SHA256: datasets.Digest(s)}
	of := make([]int, c.Classes)
	for i := range c.HeldOut {
		b, err := s.Batch(datasets.HeldOut, i, 1)
		if err != nil {
			return nil, err
		}
		of[b.Targets[0].I32[0]]++
	}
	c.Majority = float64(slices.Max(of)) / float64(c.HeldOut)
	return c, nil
}

// contents reads what the sets are.
func (f *Frame) contents(size Size, log *records.Log) (map[string]*setContents, error) {
	all := map[string]*setContents{}
	for name := range size.Sets {
		all[name] = &setContents{}
		if err := log.Get(setSample(name), all[name]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// beatsMajority says whether a training is better than one that always says the most frequent class, by
// the 95% interval of its mean over seeds.
func beatsMajority(a *Result, c *setContents) string {
	lo, _, ok := stats.Sampled(a.Accuracies()).Interval(0.95)
	return lab.YesOrNo(ok && lo > 100*c.Majority)
}

// drawTransferred draws, set by set, how accurate the networks that others begin with are, and how
// accurate those are then: means over seeds.
func drawTransferred(r *Reporting, p PanelSpec) []plot.Axes {
	out := &plot.LinePanel{Title: p.Title, X: "accuracy before (%)", Y: p.Y}
	for _, set := range slices.Sorted(maps.Keys(r.sets)) {
		var line []plot.Point
		for _, a := range r.Results {
			if a.From != "" && a.Set == set {
				before := r.Results[r.Named(a.From)]
				line = append(line, plot.Point{X: stats.Mean(before.Accuracies()), Y: stats.Mean(a.Accuracies())})
			}
		}
		slices.SortFunc(line, func(a, b plot.Point) int { return cmp.Compare(a.X, b.X) })
		if line != nil {
			out.Series = append(out.Series, plot.Series{Name: set, Lines: [][]plot.Point{line}})
		}
	}
	return []plot.Axes{out}
}
