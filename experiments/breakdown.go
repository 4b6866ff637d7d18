package experiments

import (
	"context"
	"fmt"
	"time"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
)

// breakdownSpec is breakdown.yaml.
type breakdownSpec struct {
	head      `yaml:",inline"`
	K         []int       `yaml:"k" want:"1..1024"`
	M         int         `yaml:"m" want:"1..65536"`
	Optimizer string      `yaml:"optimizer" want:"optimizer"`
	LR        float64     `yaml:"lr" want:">0.."`
	Paper     paperShares `yaml:"paper"`
	Picture   cell        `yaml:"picture"`

	Profiles map[string]breakdownProfile `yaml:"profiles"`
}

// paperShares is the paper's breakdown, in percent.
type paperShares struct {
	K           int      `yaml:"k" want:"1..1024"`
	Computation verbatim `yaml:"computation"`
	Recompute   verbatim `yaml:"recompute"`
	Bubble      verbatim `yaml:"bubble"`
	Imbalance   verbatim `yaml:"imbalance"`
	Setup       verbatim `yaml:"setup"`
	Update      verbatim `yaml:"update"`
}

type breakdownProfile struct {
	Expected span  `yaml:"expected"`
	Model    Model `yaml:"model"`
	Batch    int   `yaml:"batch"`
	Rounds   int   `yaml:"rounds" want:"1..1000"`
	WarmUp   int   `yaml:"warm_up" want:"0..1000"`
}

// breakdown times one network at several K on emulated devices, and takes the
// picture of a step with GPipe and of one without.
type breakdown struct {
	spec breakdownSpec
	text string
}

func loadBreakdown(from ...SpecFile) (Experiment, error) {
	b := &breakdown{}
	var err error
	b.text, err = loadSpec("breakdown.yaml", from, &b.spec, b.check)
	return b, err
}

func (b *breakdown) check() *specProblem {
	if p := checkProfiles(b.spec.Profiles); p != nil {
		return p
	}
	for _, name := range Profiles {
		p := b.spec.Profiles[name]
		for _, m := range []int{b.spec.M, b.spec.Picture.M} {
			if p.Batch%m != 0 {
				return at(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, p.Batch), "profiles", name, "batch")
			}
		}
	}
	return nil
}

func (b *breakdown) ID() string    { return b.spec.Experiment }
func (b *breakdown) Title() string { return b.spec.Title }

func (b *breakdown) Expected(profile string) time.Duration {
	return time.Duration(b.spec.Profiles[profile].Expected)
}

func (b *breakdown) Key(profile string) Key {
	return key(b.ID(), profile, b.text)
}

// The runs of the picture.
const (
	pictureNaive = "picture/naive"
	pictureGPipe = "picture/gpipe"
)

func breakdownRun(k int) string { return fmt.Sprintf("K=%d", k) }

func (b *breakdown) setup(k, m int) Setup {
	return Setup{Partitions: k, MicroBatches: m, Device: gpipe.Emulated, Threads: 1}
}

// rounds are those of a profile: a breakdown for each K, and the picture's two.
func (b *breakdown) rounds(profile breakdownProfile) *rounds {
	r := &rounds{id: b.ID(), count: profile.Rounds, warmUp: profile.WarmUp, seed: b.spec.Seed}
	add := func(name string, s Setup) {
		r.runs = append(r.runs, timedRun{
			name: name, bench: name,
			training: Training{
				Model: profile.Model, Batch: profile.Batch,
				Optimizer: b.spec.Optimizer, LR: b.spec.LR, LRSchedule: "constant",
				Setup: s,
			},
			steps: 1,
		})
	}
	for _, k := range b.spec.K {
		add(breakdownRun(k), b.setup(k, b.spec.M))
	}
	naive := b.setup(b.spec.Picture.K, 1)
	naive.Schedule, naive.Checkpoint = schedule.Naive, schedule.Never
	add(pictureNaive, naive)
	add(pictureGPipe, b.setup(b.spec.Picture.K, b.spec.Picture.M))
	return r
}

func (b *breakdown) repeated(profile string) (repeated, error) {
	p, err := profileOf(b.spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return b.rounds(p), nil
}

func (b *breakdown) Measure(ctx context.Context, log *Log, p Progress) error {
	r, err := b.repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	return inThisProcess(ctx, r, log, p)
}
