package mlperf

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gpipebench/datasets"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

// bucketingSpec is spec.yaml.
type bucketingSpec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec  `yaml:"setup"`
	Ways     []bucketingWay `yaml:"ways"`
	OneHost  string         `yaml:"one_host" want:"name"`
	Paper    lab.Verbatim   `yaml:"paper"`
	Replicas []int          `yaml:"replicas" want:"1..65536"`
	Trained  []string       `yaml:"trained" want:"name"`

	Profiles map[string]bucketingProfile `yaml:"profiles"`
}

// bucketingWay says which pairs share a mini-batch: see datasets.TranslationConfig.
type bucketingWay struct {
	Name   string `yaml:"name" want:"name,key"`
	Window int    `yaml:"window" want:"0.."`
	Hosts  int    `yaml:"hosts" want:"0.."`
	Apart  bool   `yaml:"apart"`
}

// of returns a source's configuration with the way's.
func (w bucketingWay) of(c datasets.Config) datasets.Config {
	c.Translation.Window, c.Translation.Hosts, c.Translation.Apart = w.Window, w.Hosts, w.Apart
	return c
}

type bucketingProfile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Counted  struct { // an epoch without a training
		lab.PairsSpec `yaml:",inline"`
		Batch         int `yaml:"batch" want:"1..65536"`
	} `yaml:"counted"`
	Seeds    []uint64         `yaml:"seeds"`
	Data     lab.PairsSpec    `yaml:"data"`
	Accuracy float64          `yaml:"accuracy" want:">0..100"` // percent of the held-out targets
	Epochs   int              `yaml:"epochs" want:"1..100000"` // at most
	Training lab.TrainingSpec `yaml:"training"`
}

// bucketing counts epochs' mini-batches, and trains with them.
type bucketing struct {
	lab.Base[bucketingSpec]
	setup train.Setup
}

func (b *bucketing) Resolve() *lab.Problem {
	b.setup = b.Spec.Setup.Setup()
	if err := trained.CheckSetup(b.setup); err != nil {
		return lab.At(err, "setup")
	}
	for i, w := range b.Spec.Ways {
		if err := w.of(datasets.Config{}).Validate(); err != nil {
			return lab.At(err, "ways", fmt.Sprint(i))
		}
	}
	if b.way(b.Spec.OneHost) == nil {
		return lab.At(fmt.Errorf("no way %q", b.Spec.OneHost), "one_host")
	}
	for i, name := range b.Spec.Trained {
		if b.way(name) == nil {
			return lab.At(fmt.Errorf("no way %q", name), "trained", fmt.Sprint(i))
		}
	}
	if len(b.Spec.Trained) == 0 || len(b.Spec.Replicas) == 0 {
		return lab.At(errors.New("want ways to train and numbers of replicas"))
	}
	for _, name := range lab.Profiles {
		p := b.Spec.Profiles[name]
		at := []string{"profiles", name}
		switch {
		case slices.ContainsFunc(b.Spec.Replicas, func(r int) bool { return p.Counted.Batch%r != 0 }):
			return lab.At(fmt.Errorf("want a multiple of all replicas, %v", b.Spec.Replicas), append(at, "counted", "batch")...)
		case p.Counted.Pairs < p.Counted.Batch:
			return lab.At(fmt.Errorf("want %d or more, those of a mini-batch", p.Counted.Batch), append(at, "counted", "pairs")...)
		case p.Training.Steps != 0:
			return lab.At(errors.New("want none, as they follow from epochs"), append(at, "training", "steps")...)
		}
	}
	return nil
}

func (b *bucketing) way(name string) *bucketingWay {
	for i := range b.Spec.Ways {
		if b.Spec.Ways[i].Name == name {
			return &b.Spec.Ways[i]
		}
	}
	return nil
}

// arms are the trainings of a profile. All of one seed see the same pairs in an epoch.
func (b *bucketing) arms(p bucketingProfile) (all []trained.Arm) {
	for _, name := range b.Spec.Trained {
		all = append(all, trained.Arm{Name: name, Training: func(seed uint64) train.Training {
			t := p.Training.Training("synthetic-translation", b.setup, seed)
			t.Config = b.way(name).of(p.Data.Config())
			t.Epochs = p.Epochs
			return t
		}})
	}
	return all
}

func (b *bucketing) Planned(profile string) []lab.PlannedRun {
	p := b.Spec.Profiles[profile]
	return trained.PlannedArms(profile, b.arms(p), p.Seeds)
}

// bucketingFigures are those of an epoch's full mini-batches. Positions are places for tokens of both
// sides, which a recurrent layer passes through, padding included.
type bucketingFigures struct {
	Batches int   `json:"batches"`
	Tokens  int64 `json:"tokens"`
	Longest int64 `json:"longest"` // positions, each mini-batch padded to its longest sentences
	Shaped  int64 `json:"shaped"`  // padded to the shape of its program
	// Parts and Slowest are by number of replicas: positions of all parts, each padded to its own
	// longest sentences; and of the part with most in each step, times the replicas.
	Parts   map[int]int64 `json:"parts"`
	Slowest map[int]int64 `json:"slowest"`
}

// Check requires tokens, and no fewer positions the more is padded.
func (f *bucketingFigures) Check() error {
	if f.Batches < 1 || f.Tokens < 1 || f.Longest < f.Tokens || f.Shaped < f.Longest {
		return fmt.Errorf("%d tokens of %d mini-batches in %d and %d positions", f.Tokens, f.Batches, f.Longest, f.Shaped)
	}
	for r, slowest := range f.Slowest {
		if parts := f.Parts[r]; parts < f.Tokens || slowest < parts || f.Longest < slowest {
			return fmt.Errorf("%d replicas: %d positions, of the slowest %d", r, parts, slowest)
		}
	}
	return nil
}

// count adds a mini-batch.
func (f *bucketingFigures) count(b nn.Batch, replicas []int) {
	n, targets := b.Examples(), b.Targets[0]
	source := func(i int) int { return int(b.Inputs[1].I32[i]) }
	target := func(i int) int {
		row := targets.I32[i*targets.Shape[1] : (i+1)*targets.Shape[1]]
		if end := slices.Index(row, -1); end >= 0 {
			return end
		}
		return len(row)
	}
	positions := func(from, to int) int64 {
		s, t := 0, 0
		for i := from; i < to; i++ {
			s, t = max(s, source(i)), max(t, target(i))
		}
		return int64(to-from) * int64(s+t)
	}
	for i := range n {
		f.Tokens += int64(source(i) + target(i))
	}
	f.Batches++
	f.Longest += positions(0, n)
	f.Shaped += int64(n) * int64(b.Inputs[0].Shape[1]+targets.Shape[1])
	for _, r := range replicas {
		most := int64(0)
		for i := range r {
			part := positions(n*i/r, n*(i+1)/r)
			f.Parts[r] += part
			most = max(most, part)
		}
		f.Slowest[r] += int64(r) * most
	}
}

// bucketingCounted are the figures of the full mini-batches of a source's first epoch.
func bucketingCounted(s datasets.Source, batch int, replicas []int) (*bucketingFigures, error) {
	f := &bucketingFigures{Parts: map[int]int64{}, Slowest: map[int]int64{}}
	for i := range s.Batches(datasets.Train, batch) {
		b, err := s.Batch(datasets.Train, i, batch)
		if err != nil {
			return nil, err
		}
		if b.Examples() == batch {
			f.count(b, replicas)
		}
	}
	return f, nil
}

// Samples of figures: of an epoch, and of one of the trainings' with the first seed.
func bucketingEpochOf(w bucketingWay) string   { return "epoch/" + w.Name }
func bucketingTrainedOn(w bucketingWay) string { return "trained-on/" + w.Name }

func (b *bucketing) Measure(ctx context.Context, log *records.Log, progress progress.Progress) error {
	p, err := lab.ProfileOf(b.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	var jobs []lab.Job
	add := func(sample string, seed uint64, of func() (*bucketingFigures, error)) {
		jobs = append(jobs, lab.Job{Sample: sample, Seed: seed, Make: func(context.Context) (any, string, error) {
			f, err := of()
			return f, sample, err
		}})
	}
	for _, w := range b.Spec.Ways {
		add(bucketingEpochOf(w), b.Spec.Seed, func() (*bucketingFigures, error) {
			c := w.of(p.Counted.Config())
			c.Seed = b.Spec.Seed
			s, err := datasets.NewMultilingual(c)
			if err != nil {
				return nil, err
			}
			return bucketingCounted(s, p.Counted.Batch, b.Spec.Replicas)
		})
	}
	for _, a := range b.arms(p) {
		t := a.Training(p.Seeds[0])
		add(bucketingTrainedOn(*b.way(a.Name)), p.Seeds[0], func() (*bucketingFigures, error) {
			s, err := t.Source()
			if err != nil {
				return nil, err
			}
			return bucketingCounted(s, t.Batch, nil)
		})
	}
	if err := lab.MakeMissing(ctx, b.ID(), log, progress, jobs); err != nil {
		return err
	}
	return trained.Each(ctx, b.ID(), b.arms(p), p.Seeds, log, progress, func(ctx context.Context, t train.Training) (any, string, error) {
		r, err := trained.Until(ctx, t, p.Accuracy)
		if err != nil {
			return nil, "", err
		}
		return r, r.String(), nil
	})
}
