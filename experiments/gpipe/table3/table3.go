// Package table3 measures throughput over slow links (Table 3).
package table3

import (
	"context"
	"embed"
	"fmt"

	"gpipebench/experiments/paperscale"
	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/stats"
	"gpipebench/nn/program"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "table3", Folder: folder, New: suite.New[Table3]}

func (t *Table3) Planned(profile string) []suite.PlannedRun {
	return append(t.rounds(t.Spec.Profiles[profile]).Planned(profile), t.Spec.Scale.Planned()...)
}

// table3Spec is spec.yaml.
type table3Spec struct {
	suite.Head       `yaml:",inline"`
	Torchgpipe       string `yaml:"torchgpipe"`
	paperscale.Scale `yaml:",inline"`
	Partitioner      string  `yaml:"partitioner" want:"partitioner"`
	Cost             string  `yaml:"cost" want:"cost"`
	Optimizer        string  `yaml:"optimizer" want:"optimizer"`
	LR               float64 `yaml:"lr" want:">0.."`

	Profiles map[string]table3Profile `yaml:"profiles"`
}

type table3Profile struct {
	Expected suite.Span       `yaml:"expected"`
	Models   []workload.Model `yaml:"models"` // one for each network
	Batch    int              `yaml:"batch"`
	Rounds   int              `yaml:"rounds" want:"1..1000"`
	WarmUp   int              `yaml:"warm_up" want:"0..1000"`
}

// Table3 times pipelines on emulated devices and replays their steps over links
// as slow, beside a core of this machine, as PCI-E is beside a P100; and models
// the paper's own networks on P100s.
type Table3 struct {
	suite.Base[table3Spec]
	partitioner partition.Partitioner
	cost        workload.Cost
}

func (t *Table3) Resolve() *suite.Problem {
	if p := t.Spec.Scale.Check(); p != nil {
		return p
	}
	var err error
	if t.partitioner, err = partition.Parse(t.Spec.Partitioner); err != nil {
		return suite.At(err, "partitioner")
	}
	if t.cost, err = workload.ParseCost(t.Spec.Cost); err != nil {
		return suite.At(err, "cost")
	}
	for _, name := range suite.Profiles {
		p := t.Spec.Profiles[name]
		if len(p.Models) != len(t.Spec.Networks) {
			return suite.At(fmt.Errorf("%d models for %d networks: want one for each", len(p.Models), len(t.Spec.Networks)), "profiles", name, "models")
		}
		for _, m := range t.Spec.M {
			if p.Batch%m != 0 {
				return suite.At(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, p.Batch), "profiles", name, "batch")
			}
		}
	}
	return nil
}

func table3Run(n *paperscale.Network, c suite.Cell) string {
	return fmt.Sprintf("model=%s/K=%d/M=%d", n.ID, c.K, c.M)
}

func (t *Table3) setup(c suite.Cell) workload.Setup {
	return workload.Setup{Partitions: c.K, MicroBatches: c.M, Partitioner: t.partitioner, Cost: t.cost, Device: gpipe.Emulated, Threads: 1}
}

// rounds are those of a profile.
func (t *Table3) rounds(profile table3Profile) *rounds.Rounds {
	r := &rounds.Rounds{ID: t.ID(), Count: profile.Rounds, WarmUp: profile.WarmUp, Seed: t.Spec.Seed}
	for i, n := range t.Spec.Networks {
		for _, c := range t.Spec.Cells() {
			r.Runs = append(r.Runs, rounds.Run{
				Name: table3Run(n, c), Bench: table3Run(n, c),
				Training: workload.Training{
					Model: profile.Models[i], Batch: profile.Batch,
					Optimizer: t.Spec.Optimizer, LR: t.Spec.LR, LRSchedule: "constant",
					Setup: t.setup(c),
				},
				Steps: 1,
			})
		}
	}
	return r
}

// table3Rounds are those of the pipelines. Each begins with the rate of a core.
type table3Rounds struct{ *rounds.Rounds }

// coreRate names a round's sample with the rate of one core, in floating-point
// operations per second.
func coreRate(round int) string { return fmt.Sprintf("core/flops-per-second/round=%d", round) }

func (r table3Rounds) Samples() [][]string {
	names := r.Rounds.Samples()
	for round := range names {
		names[round] = append([]string{coreRate(round)}, names[round]...)
	}
	return names
}

func (r table3Rounds) Round(ctx context.Context, round int, log *records.Log) error {
	if name := coreRate(round); !log.Has(name) {
		rate, err := program.CoreRate(ctx)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r.ID, name, err)
		}
		if err := log.Add(name, 0, rate); err != nil {
			return err
		}
	}
	return r.Rounds.Round(ctx, round, log)
}

func (t *Table3) Repeated(profile string) (rounds.Repeated, error) {
	p, err := suite.ProfileOf(t.Spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return table3Rounds{t.rounds(p)}, nil
}

func (t *Table3) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	r, err := t.Repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	if err := t.Spec.Measure(ctx, log, p); err != nil {
		return err
	}
	return rounds.InThisProcess(ctx, r, log, p)
}

// linkRatios are the links that a network's steps are replayed over.
type linkRatios struct {
	rate    float64 // of a core here, the median over rounds
	peak    float64 // of the accelerator
	traffic float64 // bytes handed on for each FLOP, over that of the paper's network
	link    timeline.Link
}

// linksOf are those for a network that is measured as model.
func (t *Table3) linksOf(log *records.Log, n *paperscale.Network, model workload.Model) (r linkRatios, err error) {
	profile, err := suite.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return r, err
	}
	rates := make([]float64, profile.Rounds)
	for round := range rates {
		if err := log.Get(coreRate(round), &rates[round]); err != nil {
			return r, err
		}
	}
	r.rate = stats.Median(rates)
	a, err := accelerator.Named(n.Accelerator)
	if err != nil {
		return r, err
	}
	r.peak, r.link = a.F32, a.Link
	here, err := rounds.TrafficOf(model)
	if err != nil {
		return r, err
	}
	paper, err := rounds.TrafficOf(n.Model)
	r.traffic = here / paper
	return r, err
}

// strict has the accelerator's bytes for each floating-point operation. The
// latency, an assumption of microseconds beside tasks of many milliseconds at
// the paper's scale, is left out.
func (r linkRatios) strict() timeline.Link {
	return timeline.Link{Bandwidth: r.link.Bandwidth * r.rate / r.peak, ThroughHost: r.link.ThroughHost}
}

// scaled is as much faster as the smaller network has more traffic for each
// operation than the paper's, so that transfers take the share of a step that
// they would take at the paper's scale.
func (r linkRatios) scaled() timeline.Link {
	l := r.strict()
	l.Bandwidth *= r.traffic
	return l
}
