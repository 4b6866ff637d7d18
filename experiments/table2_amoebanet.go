package experiments

import (
	"context"
	"fmt"
	"time"

	"gpipebench/gpipe"
)

// amoebaSpec is table2_amoebanet.yaml.
type amoebaSpec struct {
	head       `yaml:",inline"`
	Torchgpipe string       `yaml:"torchgpipe"` // source of its values
	K          []int        `yaml:"k" want:"1..1024"`
	M          []int        `yaml:"m" want:"1..65536"`
	Base       cell         `yaml:"base"`
	Costs      []string     `yaml:"costs" want:"cost"`
	Optimizer  string       `yaml:"optimizer" want:"optimizer"`
	LR         float64      `yaml:"lr" want:">0.."`
	Paper      []amoebaCell `yaml:"paper"`
	PaperModel Model        `yaml:"paper_model"`

	Profiles map[string]amoebaProfile `yaml:"profiles"`
}

type amoebaCell struct {
	paperCell  `yaml:",inline"`
	Torchgpipe verbatim `yaml:"torchgpipe" want:"optional"`
}

type amoebaProfile struct {
	Expected span        `yaml:"expected"`
	Model    Model       `yaml:"model"`
	Batch    int         `yaml:"batch"`
	Rounds   int         `yaml:"rounds" want:"1..1000"`
	Steps    map[int]int `yaml:"steps" want:"1..1000"` // in a round, by M
	WarmUp   int         `yaml:"warm_up" want:"0..1000"`
}

// amoeba is Table 2's other half: a grid of K and M on emulated devices, cut in
// several ways.
type amoeba struct {
	spec  amoebaSpec
	text  string
	costs []Cost

	modelled modelledBeside
}

func loadTable2AmoebaNet(from ...SpecFile) (Experiment, error) {
	a := &amoeba{}
	var err error
	if a.modelled, err = loadModelledBeside("amoebanet"); err != nil {
		return nil, err
	}
	a.text, err = loadSpec("table2_amoebanet.yaml", from, &a.spec, a.check)
	return a, err
}

func (a *amoeba) check() *specProblem {
	a.costs = nil
	for i, name := range a.spec.Costs {
		c, err := ParseCost(name)
		if err != nil {
			return at(err, "costs", fmt.Sprint(i))
		}
		a.costs = append(a.costs, c)
	}
	if p := checkProfiles(a.spec.Profiles); p != nil {
		return p
	}
	for _, name := range Profiles {
		p := a.spec.Profiles[name]
		for _, m := range a.spec.M {
			if p.Steps[m] < 1 {
				return at(fmt.Errorf("no steps for M = %d: want 1 or more", m), "profiles", name, "steps")
			}
			if p.Batch%m != 0 {
				return at(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, p.Batch), "profiles", name, "batch")
			}
		}
	}
	return checkGrid(a.cells(), a.spec.Base, func(c cell) float64 { return a.paper(c).value() })
}

// value is what the paper has, 0 if it has none.
func (c *amoebaCell) value() float64 {
	if c == nil {
		return 0
	}
	return c.Value.Value
}

func (a *amoeba) ID() string    { return a.spec.Experiment }
func (a *amoeba) Title() string { return a.spec.Title }

func (a *amoeba) Expected(profile string) time.Duration {
	return time.Duration(a.spec.Profiles[profile].Expected)
}

func (a *amoeba) Key(profile string) Key {
	return key(a.ID(), profile, a.text+a.modelled.key())
}

// cells of the grid, in the paper's order.
func (a *amoeba) cells() []cell {
	var cs []cell
	for _, m := range a.spec.M {
		for _, k := range a.spec.K {
			cs = append(cs, cell{k, m})
		}
	}
	return cs
}

// paper is what is printed for a cell, nil if nothing is.
func (a *amoeba) paper(c cell) *amoebaCell {
	for i := range a.spec.Paper {
		if a.spec.Paper[i].cell == c {
			return &a.spec.Paper[i]
		}
	}
	return nil
}

func amoebaRun(cost Cost, c cell) string { return fmt.Sprintf("cut=%v/K=%d/M=%d", cost, c.K, c.M) }

func (a *amoeba) setup(cost Cost, c cell) Setup {
	return Setup{Partitions: c.K, MicroBatches: c.M, Cost: cost, Device: gpipe.Emulated, Threads: 1}
}

// rounds are those of a profile: every cell with every cut.
func (a *amoeba) rounds(profile amoebaProfile) *rounds {
	r := &rounds{id: a.ID(), count: profile.Rounds, warmUp: profile.WarmUp, seed: a.spec.Seed}
	for _, c := range a.cells() {
		for _, cost := range a.costs {
			r.runs = append(r.runs, timedRun{
				name: amoebaRun(cost, c), bench: amoebaRun(cost, c),
				training: Training{
					Model: profile.Model, Batch: profile.Batch,
					Optimizer: a.spec.Optimizer, LR: a.spec.LR, LRSchedule: "constant",
					Setup: a.setup(cost, c),
				},
				steps: profile.Steps[c.M],
			})
		}
	}
	return r
}

func (a *amoeba) repeated(profile string) (repeated, error) {
	p, err := profileOf(a.spec.Profiles, profile)
	if err != nil {
		return nil, err
	}
	return a.rounds(p), nil
}

func (a *amoeba) Measure(ctx context.Context, log *Log, p Progress) error {
	r, err := a.repeated(log.Key.Profile)
	if err != nil {
		return err
	}
	if err := a.modelled.measure(ctx, log, p); err != nil {
		return err
	}
	return inThisProcess(ctx, r, log, p)
}
