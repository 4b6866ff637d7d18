package gpipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gpipebench/datasets"
	"gpipebench/internal/files"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// transferSpec is spec.yaml.
type transferSpec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec              `yaml:"setup"`
	Profiles map[string]transferProfile `yaml:"profiles"`
}

// transferProfile is one network and the sets of images that it sees.
type transferProfile struct {
	Expected lab.Span             `yaml:"expected" want:"shown"`
	Make     string               `yaml:"make" want:"name,shown,optional"` // targets of make that bring the files
	Seeds    []uint64             `yaml:"seeds"`
	Model    train.Model          `yaml:"model"`
	Batch    int                  `yaml:"batch"`
	Images   datasets.ImageConfig `yaml:"images"` // changes of training images, of all sets

	From        transferSet    `yaml:"from"` // the set of the pretraining
	Pretraining transferRecipe `yaml:"pretraining"`
	To          []transferSet  `yaml:"to"`          // the sets that are transferred to
	FineTuning  transferRecipe `yaml:"fine_tuning"` // with the pretrained weights, all but the last layer's
	Scratch     transferRecipe `yaml:"scratch"`     // without, in as many steps
	Longer      transferRecipe `yaml:"longer"`      // without, in as many steps as Pretraining and FineTuning together
}

// transferSet is a set of images.
type transferSet struct {
	Name    string                         `yaml:"name" want:"name,key"`
	For     string                         `yaml:"for" want:"name"` // the paper's set that it stands for
	Paper   lab.Verbatim                   `yaml:"paper"`           // the paper's accuracy on that, in percent
	Data    string                         `yaml:"data" want:"images"`
	Classes int                            `yaml:"classes" want:"0.."` // of synthetic; files say how many they have
	Figures datasets.SyntheticImagesConfig `yaml:"figures"`            // of synthetic
	// HeldOutOf is of how many images of a class one is for testing, where folders do not
	// say: see datasets.ImageConfig.
	HeldOutOf int `yaml:"held_out_of" want:"0..1000"`
}

// transferRecipe is how a network is trained.
type transferRecipe struct {
	Steps          int     `yaml:"steps"`
	Optimizer      string  `yaml:"optimizer" want:"optimizer"`
	LR             float64 `yaml:"lr" want:">0.."`
	LRSchedule     string  `yaml:"lr_schedule" want:"optional"` // constant
	L2             float64 `yaml:"l2"`
	LabelSmoothing float64 `yaml:"label_smoothing"`
}

// String is the recipe in words.
func (r transferRecipe) String() string {
	text := fmt.Sprintf("%d steps of %s, learning rate %g", r.Steps, r.Optimizer, r.LR)
	if r.LRSchedule != "" {
		text += " with " + r.LRSchedule
	}
	return text
}

// transfer trains a network for each seed, and from it, and from scratch, others for each
// other set of images.
type transfer struct {
	lab.Base[transferSpec]
	setup train.Setup
}

func (x *transfer) Resolve() *lab.Problem {
	x.setup = x.Spec.Setup.Setup()
	if err := trained.CheckSetup(x.setup); err != nil {
		return lab.At(err, "setup")
	}
	for _, name := range lab.Profiles {
		p := x.Spec.Profiles[name]
		if want := p.FineTuning.Steps; p.Scratch.Steps != want {
			return lab.At(fmt.Errorf("want %d, as many as of fine_tuning", want), "profiles", name, "scratch", "steps")
		}
		if want := p.Pretraining.Steps + p.FineTuning.Steps; p.Longer.Steps != want {
			return lab.At(fmt.Errorf("want %d, as many as of pretraining and fine_tuning together", want), "profiles", name, "longer", "steps")
		}
		for i, s := range append([]transferSet{p.From}, p.To...) {
			path := []string{"profiles", name, "from"}
			if i > 0 {
				path = []string{"profiles", name, "to", fmt.Sprint(i - 1)}
			}
			var err error
			switch made := s.Data == "synthetic"; {
			case made && s.Classes == 0:
				err = errors.New("want a number of classes of synthetic")
			case !made && (s.Classes != 0 || s.Figures != datasets.SyntheticImagesConfig{}):
				err = errors.New("want classes and figures of synthetic only, since files say what they have")
			case i > 0 && s.Name == p.From.Name:
				err = errors.New("want another name than that of the set of the pretraining")
			}
			if err != nil {
				return lab.At(err, path...)
			}
		}
	}
	return nil
}

// training is a training on a set.
func (x *transfer) training(p transferProfile, s transferSet, r transferRecipe, seed uint64) train.Training {
	t := train.Training{
		Model: p.Model, Data: s.Data, Config: datasets.Config{Images: p.Images, SyntheticImages: s.Figures},
		Setup: x.setup, Batch: p.Batch, Steps: r.Steps, Seed: seed,
		Optimizer: r.Optimizer, LR: r.LR, LRSchedule: cmp.Or(r.LRSchedule, "constant"), L2: r.L2, LabelSmoothing: r.LabelSmoothing,
	}
	t.Model.Classes, t.Config.Images.HeldOutOf = s.Classes, s.HeldOutOf
	return t
}

// transferArms are the ways in which a network is trained: on the set of the pretraining, and,
// for each other set, from what that gave, and from scratch.
type transferArms struct {
	pretraining            trained.Arm
	tuned, scratch, longer []trained.Arm // by set
}

// arms returns the arms of a profile. Weights of the pretraining are in the given
// directory.
func (x *transfer) arms(p transferProfile, dir string) (a transferArms) {
	weights := func(seed uint64) string { return filepath.Join(dir, fmt.Sprintf("seed%d.safetensors", seed)) }
	a.pretraining = trained.Arm{Name: p.From.Name + ", pretraining", Training: func(seed uint64) train.Training {
		t := x.training(p, p.From, p.Pretraining, seed)
		t.Save = weights(seed)
		return t
	}}
	for _, s := range p.To {
		a.tuned = append(a.tuned, trained.Arm{Name: s.Name + ", pretrained", Training: func(seed uint64) train.Training {
			t := x.training(p, s, p.FineTuning, seed)
			t.LoadPart, t.NewLast = weights(seed), true
			return t
		}})
		a.scratch = append(a.scratch, trained.Arm{Name: s.Name + ", from scratch", Training: func(seed uint64) train.Training {
			return x.training(p, s, p.Scratch, seed)
		}})
		a.longer = append(a.longer, trained.Arm{Name: s.Name + ", from scratch, longer", Training: func(seed uint64) train.Training {
			return x.training(p, s, p.Longer, seed)
		}})
	}
	return a
}

// untuned returns the arms that begin without weights.
func (a transferArms) untuned() []trained.Arm {
	return slices.Concat([]trained.Arm{a.pretraining}, a.scratch, a.longer)
}

func (x *transfer) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	const kept = "weights"
	dir := log.Unfinished(kept)
	if dir == "" {
		if dir, err = os.MkdirTemp("", "transfer-*"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	a := x.arms(profile, dir)
	all := append(a.untuned(), a.tuned...)
	if len(transferLacking(log, profile, all)) == 0 {
		return nil
	}
	if err := x.read(profile, log); err != nil {
		return err
	}
	if err := files.MakeDir(dir); err != nil {
		return err
	}
	// What needs no weights first, so that all cores have work.
	if err := trained.Run(ctx, x.ID(), a.untuned(), profile.Seeds, log, p); err != nil {
		return err
	}
	for _, seed := range transferLacking(log, profile, a.tuned) {
		if err := x.pretrained(ctx, log, a.pretraining, seed); err != nil {
			return err
		}
	}
	if err := trained.Run(ctx, x.ID(), a.tuned, profile.Seeds, log, p); err != nil {
		return err
	}
	return log.Finished(kept)
}

// transferLacking returns the seeds for which the log lacks a training of some arms.
func transferLacking(log *records.Log, p transferProfile, arms []trained.Arm) (seeds []uint64) {
	for _, seed := range p.Seeds {
		for _, a := range arms {
			if !log.Has(a.Sample(seed)) {
				seeds = append(seeds, seed)
				break
			}
		}
	}
	return seeds
}

// pretrained makes sure that the weights of a pretraining that has a record are there:
// its bits are the same if it is made again.
func (x *transfer) pretrained(ctx context.Context, log *records.Log, a trained.Arm, seed uint64) error {
	training := a.Training(seed)
	if _, err := os.Stat(training.Save); err == nil {
		return nil
	}
	var was trained.Trial
	if err := log.Get(a.Sample(seed), &was); err != nil {
		return err
	}
	again, err := trained.Train(ctx, training)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", x.ID(), a.Sample(seed), err)
	}
	if again.SHA256 != was.SHA256 {
		return errors.Join(fmt.Errorf("%s, %s: it ends with other weights than its record's: want --fresh, which measures anew", x.ID(), a.Sample(seed)), os.Remove(training.Save))
	}
	return nil
}

// flops returns the operations of all trainings, about: a backward is two forwards.
func (x *transfer) flops(p transferProfile) (sum float64, err error) {
	m := p.Model
	m.Classes = 10
	layers, err := train.FlopsOf(m)
	if err != nil {
		return 0, err
	}
	for _, f := range layers {
		sum += f
	}
	steps := p.Pretraining.Steps + len(p.To)*(p.FineTuning.Steps+p.Scratch.Steps+p.Longer.Steps)
	return 3 * sum * float64(p.Batch*steps*len(p.Seeds)), nil
}

func (x *transfer) Planned(profile string) (list []lab.PlannedRun) {
	p := x.Spec.Profiles[profile]
	plan := func(t train.Training, path ...string) {
		t.Save, t.LoadPart, t.NewLast = "", "", false
		if t.Data != "synthetic" { // is not read
			t.Data, t.Model.Classes = "", 10
		}
		list = append(list, lab.PlannedRun{Path: append([]string{"profiles", profile}, path...), Run: t})
	}
	a := x.arms(p, "")
	plan(a.pretraining.Training(1), "from")
	for i := range p.To {
		plan(a.tuned[i].Training(1), "to", fmt.Sprint(i))
		plan(a.scratch[i].Training(1), "to", fmt.Sprint(i))
		plan(a.longer[i].Training(1), "to", fmt.Sprint(i))
	}
	return list
}
