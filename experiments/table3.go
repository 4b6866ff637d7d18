package experiments

import (
	"context"
	"fmt"
	"time"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// table3Spec is table3.yaml.
type table3Spec struct {
	head        `yaml:",inline"`
	Torchgpipe  string `yaml:"torchgpipe"`
	paperScale  `yaml:",inline"`
	Partitioner string  `yaml:"partitioner" want:"partitioner"`
	Cost        string  `yaml:"cost" want:"cost"`
	Optimizer   string  `yaml:"optimizer" want:"optimizer"`
	LR          float64 `yaml:"lr" want:">0.."`

	Profiles map[string]table3Profile `yaml:"profiles"`
}

type table3Profile struct {
	Expected span    `yaml:"expected"`
	Models   []Model `yaml:"models"` // one for each network
	Batch    int     `yaml:"batch"`
	Rounds   int     `yaml:"rounds" want:"1..1000"`
	WarmUp   int     `yaml:"warm_up" want:"0..1000"`
}

// table3 times pipelines on emulated devices and replays their steps over links
// as slow, beside a core of this machine, as PCI-E is beside a P100; and models
// the paper's own networks on P100s.
type table3 struct {
	spec        table3Spec
	text        string
	partitioner partition.Partitioner
	cost        Cost
}

func loadTable3(from ...SpecFile) (Experiment, error) {
	t := &table3{}
	var err error
	t.text, err = loadSpec("table3.yaml", from, &t.spec, t.check)
	return t, err
}

func (t *table3) check() *specProblem {
	if p := t.spec.paperScale.check(); p != nil {
		return p
	}
	var err error
	if t.partitioner, err = partition.Parse(t.spec.Partitioner); err != nil {
		return at(err, "partitioner")
	}
	if t.cost, err = ParseCost(t.spec.Cost); err != nil {
		return at(err, "cost")
	}
	if p := checkProfiles(t.spec.Profiles); p != nil {
		return p
	}
	for _, name := range Profiles {
		p := t.spec.Profiles[name]
		if len(p.Models) != len(t.spec.Networks) {
			return at(fmt.Errorf("%d models for %d networks: want one for each", len(p.Models), len(t.spec.Networks)), "profiles", name, "models")
		}
		for _, m := range t.spec.M {
			if p.Batch%m != 0 {
				return at(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, p.Batch), "profiles", name, "batch")
			}
		}
	}
	return nil
}

func (t *table3) ID() string    { return t.spec.Experiment }
func (t *table3) Title() string { return t.spec.Title }

func (t *table3) Expected(profile string) time.Duration {
	return time.Duration(t.spec.Profiles[profile].Expected)
}

func (t *table3) Key(profile string) Key {
	return key(t.ID(), profile, t.text+t.spec.accelerators())
}

func table3Run(n *scaleNetwork, c cell) string {
	return fmt.Sprintf("model=%s/K=%d/M=%d", n.ID, c.K, c.M)
}

func (t *table3) setup(c cell) Setup {
	return Setup{Partitions: c.K, MicroBatches: c.M, Partitioner: t.partitioner, Cost: t.cost, Device: gpipe.Emulated, Threads: 1}
}

// rounds are those of a profile.
func (t *table3) rounds(profile table3Profile) *rounds {
	r := &rounds{id: t.ID(), count: profile.Rounds, warmUp: profile.WarmUp, seed: t.spec.Seed}
	for i, n := range t.spec.Networks {
		for _, c := range t.spec.cells() {
			r.runs = append(r.runs, timedRun{
				name: table3Run(n, c), bench: table3Run(n, c),
				training: Training{
					Model: profile.Models[i], Batch: profile.Batch,
					Optimizer: t.spec.Optimizer, LR: t.spec.LR, LRSchedule: "constant",
					Setup: t.setup(c),
				},
				steps: 1,
			})
		}
	}
	return r
}

// table3Rounds are those of the pipelines. Each begins with the rate of a core.
type table3Rounds struct{ *rounds }

// coreRate names a round's sample with the rate of one core, in floating-point
// operations per second.
func coreRate(round int) string { return fmt.Sprintf("core/flops-per-second/round=%d", round) }

func (r table3Rounds) samples() [][]string {
	names := r.rounds.samples()
	for round := range names {
		names[round] = append([]string{coreRate(round)}, names[round]...)
	}
	return names
}

func (r table3Rounds) round(ctx context.Context, round int, log *Log) error {
	if name := coreRate(round); !log.Has(name) {
		rate, err := measureCore(ctx)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r.id, name, err)
		}
		if err := log.Add(name, 0, rate); err != nil {
			return err
		}
	}
	return r.rounds.round(ctx, round, log)
}

func (t *table3) repeated(profile string) (repeated, error) {
	p, err := profileOf(t.spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return table3Rounds{t.rounds(p)}, nil
}

func (t *table3) Measure(ctx context.Context, log *Log, p Progress) error {
	r, err := t.repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	if err := t.spec.measure(ctx, log, p); err != nil {
		return err
	}
	return inThisProcess(ctx, r, log, p)
}

// measureCore is the rate that one core reaches in a product of 512 x 512
// matrices: the best of some, as a peak is.
func measureCore(ctx context.Context) (float64, error) {
	const n, times = 512, 40
	pool := program.NewPool(1)
	defer pool.Close()
	layer, err := newTimedLayer(nn.NewDense("product", nn.DenseConfig{In: n, Out: n, NoBias: true}), 0, nil, []graph.Type{{Shape: graph.Shape{n, n}}}, nil, 1, 1)
	if err != nil {
		return 0, err
	}
	var best float64
	for range times {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := layer.stage.Forward.Run(pool, &layer.memory, &program.Env{Step: 1, LossScale: 1}, program.Options{}); err != nil {
			return 0, err
		}
		best = max(best, 2*n*n*n/time.Since(start).Seconds())
	}
	return best, nil
}

// linkRatios are the links that a network's steps are replayed over.
type linkRatios struct {
	rate    float64 // of a core here, the median over rounds
	peak    float64 // of the accelerator
	traffic float64 // bytes handed on for each FLOP, over that of the paper's network
	link    timeline.Link
}

// linksOf are those for a network that is measured as model.
func (t *table3) linksOf(log *Log, n *scaleNetwork, model Model) (r linkRatios, err error) {
	profile, err := profileOf(t.spec.Profiles, log.Key.Profile)
	if err != nil {
		return r, err
	}
	rates := make([]float64, profile.Rounds)
	for round := range rates {
		if err := log.Get(coreRate(round), &rates[round]); err != nil {
			return r, err
		}
	}
	r.rate = median(rates)
	a, err := accelerator.Named(n.Accelerator)
	if err != nil {
		return r, err
	}
	r.peak, r.link = a.F32, a.Link
	here, err := trafficOf(model)
	if err != nil {
		return r, err
	}
	paper, err := trafficOf(n.Model)
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
