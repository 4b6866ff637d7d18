// Package scopes compares final accuracies on replicas of a pipeline in both scopes of
// batch norm.
package scopes

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "consistency-scopes", Folder: folder, New: lab.New[scopes], Untimed: true, Command: "consistency"}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	// Margin, in percentage points, is the largest mean difference of accuracy that counts
	// as none.
	Margin float64 `yaml:"margin" want:">0..100"`
	// Level is that of the tests for equivalence.
	Level float64 `yaml:"level" want:">0..0.499"`
	// Setups are in pairs, which differ in the scope alone: all, then replica. The first
	// is the baseline.
	Setups   []lab.SetupSpec            `yaml:"setups"`
	Profiles map[string]trained.Profile `yaml:"profiles"`

	setups []train.Setup
}

// scopes trains a network with batch norm on replicas to the end, in both scopes at
// several M, over seeds.
type scopes struct {
	lab.Base[spec]
}

func (s *scopes) Resolve() *lab.Problem {
	s.Spec.setups = nil
	for i, of := range s.Spec.Setups {
		setup := of.Setup()
		var wrong error
		switch {
		case i == 0 && setup.MicroBatches != 1:
			wrong = errors.New("want M = 1, the baseline")
		case setup.Replicas < 2:
			wrong = errors.New("want r of 2 or more: one replica has one scope")
		case i > 0 && setup.Replicas != s.Spec.setups[0].Replicas:
			wrong = fmt.Errorf("want r of %d, as in setup 0", s.Spec.setups[0].Replicas)
		case i%2 == 0 && setup.BNScope != gpipe.AllScope:
			wrong = errors.New("want bn_scope all, then the same with replica")
		case i%2 == 1:
			other := s.Spec.Setups[i-1]
			if other.Scope = of.Scope; other != of || setup.BNScope != gpipe.ReplicaScope {
				wrong = errors.New("want the setup before, with bn_scope replica")
			}
		case i+1 == len(s.Spec.Setups):
			wrong = errors.New("want the same with bn_scope replica after it")
		}
		if wrong == nil {
			wrong = trained.CheckSetup(setup)
		}
		if wrong != nil {
			return lab.At(wrong, "setups", fmt.Sprint(i))
		}
		s.Spec.setups = append(s.Spec.setups, setup)
		for _, name := range lab.Profiles {
			if parts := setup.Replicas * setup.MicroBatches; s.Spec.Profiles[name].Training.Batch%parts != 0 {
				return lab.At(fmt.Errorf("want a multiple of %d, the micro-batches of setup %d", parts, i), "profiles", name, "training", "batch")
			}
		}
	}
	return trained.Check(s.Spec.Profiles)
}

func (s *scopes) arms(p trained.Profile) (arms []trained.Arm) {
	for _, setup := range s.Spec.setups {
		arms = append(arms, trained.Arm{
			Name:     fmt.Sprintf("R=%d K=%d M=%d %s", setup.Replicas, setup.Partitions, setup.MicroBatches, setup.BNScope),
			Training: func(seed uint64) train.Training { return p.Training.Training("synthetic", setup, seed) },
		})
	}
	return arms
}

func (s *scopes) Planned(profile string) []lab.PlannedRun {
	p := s.Spec.Profiles[profile]
	return trained.PlannedArms(profile, s.arms(p), p.AllSeeds())
}

func (s *scopes) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return trained.Measure(ctx, s.ID(), s.Spec.Profiles, s.arms, log, p)
}

func (s *scopes) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := trained.Open(log, reference, s.Spec.Profiles, s.arms)
	if err != nil {
		return nil, err
	}
	t, n, base := r.Training, len(r.AllSeeds()), r.All[0].Accuracies()
	level, margin := s.Spec.Level, s.Spec.Margin
	table := &lab.Table{
		ID: s.ID(), Title: s.Title(),
		Caption: []string{
			fmt.Sprintf("%v, %d parameters, %d steps of %d procedural images, divided over %d replicas, %s; %d complete trainings of each kind, with the same seeds. M is that of a replica. Accuracy is measured on %d held-out images, with the moving averages of batch norm.",
				t.Model, r.All[0].Runs[0].Params, t.Steps, t.Batch, s.Spec.setups[0].Replicas, t.Optimizer, n, r.All[0].Runs[0].Targets),
			fmt.Sprintf("Batch norm's statistics are those of a replica's own micro-batch (scope replica), or of the micro-batches of the same number of all replicas (all). The baseline has those of the whole mini-batch, as has one network with M = 1. The difference to it is the mean over pairs of trainings with the same seed, in percentage points, with its 95%% interval (Student's t). Equivalence is tested by two one-sided tests at %g%% against a margin of %g points; the margin was fixed beforehand.",
				100*level, margin),
			"[V1] is the paper's criterion for a pipeline (first version, section 4.3.1): accuracy within two standard deviations of the baseline's mean.",
		},
	}
	table.Numbers("M", "K")
	table.Texts("scope")
	table.Numbers("micro-batch", "statistics of", "accuracy", "sd", "runs within [V1]")
	table.Texts("mean within")
	table.Numbers("difference to the baseline (points)", "p of equivalence", "smallest margin to hold")
	table.Texts("outcome")
	pairs := &lab.Table{
		ID: s.ID() + "-pairs", Title: "Batch norm over two replicas against within each, with the same micro-batches",
		Caption: []string{"Accuracy with statistics of all replicas less that with those of each, in percentage points: the mean over pairs of trainings with the same seed and the same micro-batches, with its 95% interval (Student's t)."},
	}
	pairs.Numbers("M", "micro-batch", "all - replica (points)", "p of equivalence", "smallest margin to hold")
	pairs.Texts("outcome")
	mean, sd := stats.MeanAndSD(base)
	final := r.Panel()
	final.Band = &plot.Band{Name: "baseline: mean ± 2 standard deviations", Lo: mean - 2*sd, Hi: mean + 2*sd}
	gaps := &plot.DotPanel{
		Title: "all - replica, pairs of one seed", Y: "percentage points", Zero: true,
		Band: &plot.Band{Name: fmt.Sprintf("margin: ± %g points", margin), Lo: -margin, Hi: margin},
	}
	says := map[string][]string{}
	for i, arm := range r.All {
		setup, own := s.Spec.setups[i], arm.Accuracies()
		m := setup.MicroBatches
		micro := t.Batch / setup.Replicas / m
		of := micro
		if setup.BNScope == gpipe.AllScope {
			of *= setup.Replicas
		}
		name, held := fmt.Sprintf("M = %d, %v", m, setup.BNScope), []any{"", "", "baseline", "", "", ""}
		final.Names[i] = fmt.Sprintf("M=%d\n%v", m, setup.BNScope)
		if i > 0 {
			c := trained.Compare(own, base, margin)
			says[c.Says(level)] = append(says[c.Says(level)], name)
			held = []any{lab.Joined("%v of %v", c.Within, n), lab.YesOrNo(c.MeanWithin), c.Cells(level)}
		}
		r.Add(table, i, m, setup.Partitions, setup.BNScope, micro, of, arm.Accuracy(), held)
		if i%2 == 1 {
			all := r.All[i-1].Accuracies()
			pairs.Add(m, micro, trained.Compare(all, own, margin).Cells(level))
			gaps.Add(fmt.Sprintf("M=%d", m), stats.Differences(all, own))
		}
	}
	table.Notes = append([]string{trained.Verdict(says, "the baseline", margin)}, r.SeedNotes()...)
	each := trained.EachTable(s.ID()+"-runs", "Final accuracy in both scopes of batch norm: each training", r.All, r.AllSeeds())
	files, err := plot.Files(s.ID(), s.Title(), []plot.Axes{final, gaps})
	return &lab.Report{Tables: []*lab.Table{table, pairs, each}, Files: files}, err
}
