package timed

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
)

// Spec is what the specs of experiments that time training steps have in common.
type Spec[P sized] struct {
	Profiled[P] `yaml:",inline"`
	Optimizer   string  `yaml:"optimizer" want:"optimizer"`
	LR          float64 `yaml:"lr" want:">0.."`
}

func (s Spec[P]) timed() Spec[P] { return s }

// Profile is what their profiles have in common.
type Profile struct {
	Size   `yaml:",inline"`
	WarmUp int `yaml:"warm_up" want:"0..1000"` // steps that are discarded when a round begins
}

func (p Profile) warmUp() int { return p.WarmUp }

// StepsByM says how many steps of a pipeline a round has, by M.
type StepsByM map[int]int

// At is the number at M; if it is missing, the number at the next smaller M, or else at the least.
func (s StepsByM) At(m int) int {
	listed := slices.Sorted(maps.Keys(s))
	at, found := slices.BinarySearch(listed, m)
	if !found {
		at = max(at-1, 0)
	}
	return s[listed[at]]
}

// timing is a profile that embeds Profile.
type timing interface {
	sized
	warmUp() int
}

// Timed is what an experiment that times training steps embeds instead of
// lab.Base. S is its spec, which embeds Spec, P a profile, which embeds Profile.
// Its New sets the functions. Check is besides CheckRuns.
type Timed[S interface {
	profiled() Profiled[P]
	timed() Spec[P]
}, P timing] struct {
	kind[S, P]
	// Runs are a profile's pipelines, without what Spec has of them, but for those that have an
	// optimiser of their own.
	Runs func(P) []Run
	// Show returns the rows of tables, whose columns are words of the spec, and adds to a report what only
	// this experiment shows.
	Show func(*Reporting[P]) (shown.Rows, error)
	// Beside are the jobs of what is shown beside the times; nil: nothing.
	Beside func() []lab.Job
	// Reduce reduces the samples; nil: Rounds.All.
	Reduce func(*Rounds, *records.Log, P) (map[string]*Measured, error)
	// CoreRate makes each round begin with the rate of one core.
	CoreRate bool
	// Partly says that a reference which lacks some of the runs is shown where it has them.
	Partly bool
}

// Rounds are a profile's rounds, with all runs.
func (t *Timed[S, P]) Rounds(profile string) (*Rounds, P, error) {
	spec := t.Spec.timed()
	p, err := t.profile(profile)
	if err != nil {
		return nil, p, err
	}
	r := &Rounds{ID: t.ID(), Runs: t.Runs(p), Count: p.size().Rounds, WarmUp: p.warmUp(), Seed: spec.Seed, CoreRate: t.CoreRate}
	for i := range r.Runs {
		run := &r.Runs[i]
		run.Training.Optimizer = cmp.Or(run.Training.Optimizer, spec.Optimizer)
		run.Training.LR, run.Training.LRSchedule = spec.LR, "constant"
	}
	return r, p, nil
}

// Resolve is the kind's and, for mini-batches that stand in profiles, CheckRuns.
func (t *Timed[S, P]) Resolve() *lab.Problem {
	if p := t.kind.Resolve(); p != nil {
		return p
	}
	return t.CheckRuns()
}

// CheckRuns refuses mini-batches that do not make micro-batches of one size. Batch is
// where the mini-batch stands in the spec; none: in the profile.
func (t *Timed[S, P]) CheckRuns(batch ...string) *lab.Problem {
	for _, profile := range lab.Profiles {
		for _, run := range t.Runs(t.Spec.timed().Profiles[profile]) {
			n, m := run.Training.Batch, run.Training.Setup.MicroBatches*run.groups()
			if n%m != 0 {
				if batch == nil {
					batch = []string{"profiles", profile, "batch"}
				}
				return lab.At(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, n), batch...)
			}
		}
	}
	return nil
}

// Repeated are a profile's rounds on this machine.
func (t *Timed[S, P]) Repeated(profile string) (Repeated, error) {
	r, _, err := t.Rounds(profile)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// MakeBeside makes what is beside.
func (t *Timed[S, P]) MakeBeside(ctx context.Context, log *records.Log, p progress.Progress) error {
	if t.Beside == nil {
		return nil
	}
	return lab.MakeMissing(ctx, t.ID()+", beside the times", log, p, t.Beside())
}

// Measure measures what is beside, and takes the rounds in this process.
func (t *Timed[S, P]) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	r, err := t.Repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	if err := t.MakeBeside(ctx, log, p); err != nil {
		return err
	}
	return InThisProcess(ctx, r, log, p)
}

// Planned are the trainings of all runs, and what Also has.
func (t *Timed[S, P]) Planned(profile string) (list []lab.PlannedRun) {
	if r, _, err := t.Rounds(profile); err == nil {
		list = r.Planned(profile)
	}
	if t.Also != nil {
		list = append(list, t.Also()...)
	}
	return list
}
