package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpipebench/gpipe"
)

// figure3Spec is figure3.yaml.
type figure3Spec struct {
	head       `yaml:",inline"`
	Torchgpipe string           `yaml:"torchgpipe"` // source of its values
	M          int              `yaml:"m"`          // of the pipelines
	Optimizer  string           `yaml:"optimizer"`
	LR         float64          `yaml:"lr"`
	Modelled   modelledSpec     `yaml:"modelled"`
	Networks   []figure3Network `yaml:"networks"`

	Profiles map[string]figure3Profile `yaml:"profiles"`
}

// figure3Network is one half of the figure.
type figure3Network struct {
	Name      string     `yaml:"name"`
	Model     Model      `yaml:"model"` // as the paper has it
	Base      string     `yaml:"base"`  // the scenario that is 1
	Scenarios []scenario `yaml:"scenarios"`
}

// scenario is a way to run a network.
type scenario struct {
	Name       string `yaml:"name"`
	setupSpec  `yaml:",inline"`
	Paper      verbatim  `yaml:"paper"`
	Torchgpipe *verbatim `yaml:"torchgpipe"`

	setup Setup
}

type figure3Profile struct {
	Expected span    `yaml:"expected"`
	Models   []Model `yaml:"models"` // one for each network
	Batch    int     `yaml:"batch"`
	Rounds   int     `yaml:"rounds"`
	Naive    int     `yaml:"naive_steps"` // of a baseline in a round, whose tasks are too few for a median; of pipelines 1
	WarmUp   int     `yaml:"warm_up"`
}

// figure3 times scenarios of two networks on emulated devices.
type figure3 struct {
	spec figure3Spec
	text string
}

func loadFigure3() (Experiment, error) {
	f := &figure3{}
	var err error
	f.text, err = loadSpec("figure3.yaml", &f.spec, f.check)
	return f, err
}

func (f *figure3) check() *specProblem {
	if err := f.spec.Modelled.check(); err != nil {
		return at(err, "modelled")
	}
	for i := range f.spec.Networks {
		n := &f.spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			var err error
			if s.setup, err = s.setupSpec.setup(); err != nil {
				return at(err, "networks", fmt.Sprint(i), "scenarios", fmt.Sprint(j))
			}
			if s.Schedule != "naive" {
				s.setup.MicroBatches = f.spec.M
			}
			s.setup.Device, s.setup.Threads = gpipe.Emulated, 1
		}
		if base := n.scenario(n.Base); base == nil || base.Paper.Value != 1 {
			return at(errors.New("want the scenario whose value in the paper is 1"), "networks", fmt.Sprint(i), "base")
		}
	}
	if p := checkProfiles(f.spec.Profiles); p != nil {
		return p
	}
	for _, name := range Profiles {
		p := f.spec.Profiles[name]
		switch {
		case p.Rounds < 1:
			return at(fmt.Errorf("%d rounds: want 1 or more", p.Rounds), "profiles", name, "rounds")
		case p.Naive < 1:
			return at(fmt.Errorf("%d steps: want 1 or more", p.Naive), "profiles", name, "naive_steps")
		case len(p.Models) != len(f.spec.Networks):
			return at(fmt.Errorf("%d models for %d networks", len(p.Models), len(f.spec.Networks)), "profiles", name, "models")
		case f.spec.M < 1 || p.Batch%f.spec.M != 0:
			return at(fmt.Errorf("%d micro-batches of %d examples are not of one size", f.spec.M, p.Batch), "profiles", name, "batch")
		}
	}
	return nil
}

func (n *figure3Network) scenario(name string) *scenario {
	for i := range n.Scenarios {
		if n.Scenarios[i].Name == name {
			return &n.Scenarios[i]
		}
	}
	return nil
}

func (f *figure3) ID() string    { return f.spec.Experiment }
func (f *figure3) Title() string { return f.spec.Title }

func (f *figure3) Expected(profile string) time.Duration {
	return time.Duration(f.spec.Profiles[profile].Expected)
}

func (f *figure3) Key(profile string) Key {
	return key(f.ID(), profile, f.text, "figure3.go", "rounds.go", "modelled.go", "simulate.go")
}

func figure3Run(n *figure3Network, s *scenario) string { return n.Name + "/" + s.Name }

// rounds are those of a profile.
func (f *figure3) rounds(profile figure3Profile) *rounds {
	r := &rounds{id: f.ID(), count: profile.Rounds, warmUp: profile.WarmUp, seed: f.spec.Seed}
	for i := range f.spec.Networks {
		n := &f.spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			steps := 1
			if s.setup.MicroBatches == 1 {
				steps = profile.Naive
			}
			r.runs = append(r.runs, timedRun{
				name:  figure3Run(n, s),
				bench: fmt.Sprintf("model=%s/scenario=%s", profile.Models[i].Name, s.Name),
				training: Training{
					Model: profile.Models[i], Batch: profile.Batch,
					Optimizer: f.spec.Optimizer, LR: f.spec.LR, LRSchedule: "constant",
					Setup: s.setup,
				},
				steps: steps,
			})
		}
	}
	return r
}

func (f *figure3) Measure(ctx context.Context, log *Log, p Progress) error {
	profile, err := profileOf(f.spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for i := range f.spec.Networks {
		n := &f.spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			if err := f.spec.Modelled.measure(ctx, log, figure3Run(n, s), n.Model, s.setup); err != nil {
				return err
			}
		}
	}
	return f.rounds(profile).measure(ctx, log, p)
}

func (f *figure3) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(f.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	rounds := f.rounds(profile)
	runs, err := rounds.all(log)
	if err != nil {
		return nil, err
	}
	table := &Table{
		ID: "figure3", Title: f.spec.Title,
		Caption: []string{
			fmt.Sprintf("Throughput relative to naive-k: the network over k accelerators, one at a time, M = 1, nothing recomputed. Pipeline-k: GPipe over k accelerators, M = %d, everything recomputed, early; whole layers cut by %v over %v. Mini-batch %d throughout (the paper adjusted it to maximise throughput), free links, one thread a device, %s.",
				f.spec.M, f.spec.Networks[0].Scenarios[1].setup.Partitioner, f.spec.Networks[0].Scenarios[1].setup.Cost, profile.Batch, f.spec.Optimizer),
			emulatedCaption(profile.Rounds, "scenario"),
			theoryCaption,
			f.spec.Modelled.caption(),
			"Work: what all F and B take together, relative to the baseline's. It is not 1 on processors whose caches small micro-batches fit better, and whose every micro-batch reads all weights.",
			"Source of the paper's values: " + f.spec.Source + ". torchgpipe: " + f.spec.Torchgpipe + ".",
		},
		Columns: slices.Concat([]Column{
			{"network", true}, {"scenario", true}, {"paper", false}, {"torchgpipe", false}, {"theory, even", false}, {"theory, cut", false},
		}, modelledColumns, []Column{{"work", false}, {"closed form", false}, {"measured", false}, {"95%", false}, {"measured/paper", false}}),
	}
	var refs map[string]*measured
	if reference != nil {
		if refs, err = f.references(reference); err != nil {
			table.Notes = append(table.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		} else {
			table.Columns = append(table.Columns, Column{Name: "reference"})
		}
	}
	parts := partsTable("figure3-steps", "Figure 3: where the measured steps' time goes", Column{"network", true}, Column{"scenario", true})
	var panels []axes
	for i := range f.spec.Networks {
		n := &f.spec.Networks[i]
		model := profile.Models[i]
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %v.", n.Name, model))
		costs, err := flopsOf(model)
		if err != nil {
			return nil, err
		}
		base := n.scenario(n.Base)
		baseRun := runs[figure3Run(n, base)]
		bars := barPanel{title: n.Name, y: "throughput relative to " + n.Base, series: []barSeries{{name: "paper"}, {name: "torchgpipe"}, {name: "theory, cut"}, {name: "measured"}}}
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			m := runs[figure3Run(n, s)]
			even, err := against(evenStep, base.setup, s.setup)
			if err != nil {
				return nil, err
			}
			cut, err := against(func(s Setup) (float64, error) { return cutStep(s, costs) }, base.setup, s.setup)
			if err != nil {
				return nil, err
			}
			got := ratioOf(baseRun.rounds, m.rounds)
			interval := got.interval()
			if s == base {
				interval = "-"
			}
			modelled, err := f.spec.Modelled.cells(log, figure3Run(n, base), figure3Run(n, s))
			if err != nil {
				return nil, err
			}
			row := slices.Concat([]string{n.Name, s.Name, s.Paper.Text, s.Torchgpipe.String(), fmt.Sprintf("%.2f", even), fmt.Sprintf("%.2f", cut)},
				modelled, []string{fmt.Sprintf("%.2f", m.work()/baseRun.work()), fmt.Sprintf("%.2f", baseRun.closed/m.closed), got.value(), interval, fmt.Sprintf("%.2f", got.median/s.Paper.Value)})
			if refs != nil {
				row = append(row, ratioOf(refs[figure3Run(n, base)].rounds, refs[figure3Run(n, s)].rounds).value())
			}
			table.Add(row...)
			parts.Add(append([]string{n.Name, s.Name}, m.cells(s.setup)...)...)
			bars.names = append(bars.names, s.Name)
			bars.series[0].add(s.Paper.Value)
			bars.series[1].add(s.Torchgpipe.or(0))
			bars.series[2].add(cut)
			bars.series[3].addRatio(got)
		}
		panels = append(panels, &bars)
	}
	table.Notes = append(table.Notes, rounds.crowdNotes(log, gpipe.Emulated)...)
	table.Notes = append(table.Notes, rounds.fewNotes()...)
	if refs != nil {
		table.Notes = append(table.Notes, referenceNote(reference))
	}
	report := &Report{Tables: []*Table{table, parts}}
	if report.Files, err = plotFiles("figure3", f.spec.Title, panels); err != nil {
		return nil, err
	}
	steps, err := rounds.stepTimes(log)
	if err != nil {
		return nil, err
	}
	report.Files = append(report.Files, File{"figure3.bench.txt", benchFormat(log, steps)})
	return report, nil
}

func (f *figure3) references(log *Log) (map[string]*measured, error) {
	profile, err := profileOf(f.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	return f.rounds(profile).all(log)
}
