package experiments

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gpipebench/gpipe"
)

// amoebaSpec is table2_amoebanet.yaml.
type amoebaSpec struct {
	head       `yaml:",inline"`
	Torchgpipe string       `yaml:"torchgpipe"` // source of its values
	K          []int        `yaml:"k"`
	M          []int        `yaml:"m"`
	Base       cell         `yaml:"base"`
	Costs      []string     `yaml:"costs"`
	Optimizer  string       `yaml:"optimizer"`
	LR         float64      `yaml:"lr"`
	Paper      []amoebaCell `yaml:"paper"`
	PaperModel Model        `yaml:"paper_model"`
	Modelled   modelledSpec `yaml:"modelled"`

	Profiles map[string]amoebaProfile `yaml:"profiles"`
}

type amoebaCell struct {
	paperCell  `yaml:",inline"`
	Torchgpipe verbatim `yaml:"torchgpipe"`
}

type amoebaProfile struct {
	Expected span        `yaml:"expected"`
	Model    Model       `yaml:"model"`
	Batch    int         `yaml:"batch"`
	Rounds   int         `yaml:"rounds"`
	Steps    map[int]int `yaml:"steps"` // in a round, by M
	WarmUp   int         `yaml:"warm_up"`
}

// amoeba is Table 2's other half: a grid of K and M on emulated devices, cut in
// several ways.
type amoeba struct {
	spec  amoebaSpec
	text  string
	costs []Cost
}

func loadTable2AmoebaNet() (Experiment, error) {
	a := &amoeba{}
	var err error
	a.text, err = loadSpec("table2_amoebanet.yaml", &a.spec, a.check)
	return a, err
}

func (a *amoeba) check() *specProblem {
	if err := a.spec.Modelled.check(); err != nil {
		return at(err, "modelled")
	}
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
		if p.Rounds < 1 {
			return at(fmt.Errorf("%d rounds: want 1 or more", p.Rounds), "profiles", name, "rounds")
		}
		for _, m := range a.spec.M {
			if p.Steps[m] < 1 {
				return at(fmt.Errorf("no steps for M = %d: want 1 or more", m), "profiles", name, "steps")
			}
			if m < 1 || p.Batch%m != 0 {
				return at(fmt.Errorf("%d micro-batches of %d examples are not of one size", m, p.Batch), "profiles", name, "batch")
			}
		}
	}
	for _, c := range a.cells() {
		if a.paper(c) == nil {
			return at(fmt.Errorf("no value for K = %d, M = %d", c.K, c.M), "paper")
		}
	}
	if base := a.paper(a.spec.Base); base == nil || base.Value.Value != 1 {
		return at(errors.New("want the cell whose value in the paper is 1"), "base")
	}
	return nil
}

func (a *amoeba) ID() string    { return a.spec.Experiment }
func (a *amoeba) Title() string { return a.spec.Title }

func (a *amoeba) Expected(profile string) time.Duration {
	return time.Duration(a.spec.Profiles[profile].Expected)
}

func (a *amoeba) Key(profile string) Key {
	return key(a.ID(), profile, a.text, "table2_amoebanet.go", "rounds.go", "costs.go", "modelled.go", "simulate.go")
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

func (a *amoeba) Measure(ctx context.Context, log *Log, p Progress) error {
	profile, err := profileOf(a.spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	for _, c := range a.cells() {
		if err := a.spec.Modelled.measure(ctx, log, amoebaRun(FLOPs, c), a.spec.PaperModel, a.setup(FLOPs, c)); err != nil {
			return err
		}
	}
	return a.rounds(profile).measure(ctx, log, p)
}

func (a *amoeba) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(a.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	rounds := a.rounds(profile)
	runs, err := rounds.all(log)
	if err != nil {
		return nil, err
	}
	costs, err := flopsOf(profile.Model)
	if err != nil {
		return nil, err
	}
	paperCosts, err := flopsOf(a.spec.PaperModel)
	if err != nil {
		return nil, err
	}
	standard := a.setup(FLOPs, a.spec.Base)
	table := &Table{
		ID: a.ID(), Title: a.spec.Title,
		Caption: []string{
			fmt.Sprintf("The paper's 18 normal cells at reduced scale: %v, mini-batch %d throughout (the paper adjusted it to fit memory, torchgpipe for every cell).", profile.Model, profile.Batch),
			fmt.Sprintf("Conventions: schedule %v, checkpoint %v, recomputation %s, cuts at whole layers by %v, free links, one thread a device, %s. Every cell is cut twice: to balance FLOPs, and to balance what each layer takes by itself on this machine, measured beforehand. Each cut is relative to its own K = %d, M = %d.",
				standard.Schedule, standard.Checkpoint, earlyOrLate(standard.LateRecompute), standard.Partitioner, a.spec.Optimizer, a.spec.Base.K, a.spec.Base.M),
			emulatedCaption(profile.Rounds, "cell"),
			"Theory, even: the closed form for even stages, f:r:b = 1:1:2. Theory, cut: the schedule replayed for the stages as cut by FLOPs, FLOPs for times, f:r:b = 1:1:2, at the measured scale and at the paper's.",
			a.spec.Modelled.caption() + " Cut by flops.",
			"Source of the paper's values: " + a.spec.Source + ". torchgpipe: " + a.spec.Torchgpipe + ".",
		},
		Columns: append([]Column{
			{"K", false}, {"M", false}, {"paper", false}, {"torchgpipe", false}, {"theory, even", false}, {"theory, cut", false}, {"theory, cut, paper's scale", false},
		}, modelledColumns...),
	}
	for _, cost := range a.costs {
		table.Columns = append(table.Columns, Column{Name: fmt.Sprintf("measured, cut by %v", cost)}, Column{Name: fmt.Sprintf("95%%, %v", cost)}, Column{Name: fmt.Sprintf("measured/paper, %v", cost)})
	}
	var refs map[string]*measured
	if reference != nil {
		if refs, err = a.references(reference); err != nil {
			table.Notes = append(table.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		} else {
			for _, cost := range a.costs {
				table.Columns = append(table.Columns, Column{Name: fmt.Sprintf("reference, %v", cost)})
			}
		}
	}
	parts := partsTable(a.ID()+"-steps", "Table 2, AmoebaNet: where the measured steps' time goes", Column{"cut by", true})
	var panels []axes
	for _, m := range a.spec.M {
		panels = append(panels, &barPanel{
			title: fmt.Sprintf("M = %d", m), y: fmt.Sprintf("throughput relative to K = %d, M = %d", a.spec.Base.K, a.spec.Base.M),
			series: []barSeries{{name: "paper"}, {name: "torchgpipe"}, {name: "theory, cut"}},
			bare:   true,
		})
	}
	for i, c := range a.cells() {
		panel := panels[i/len(a.spec.K)].(*barPanel)
		panel.names = append(panel.names, fmt.Sprintf("K = %d", c.K))
		paper, setup := a.paper(c), a.setup(FLOPs, c)
		even, err := against(evenStep, standard, setup)
		if err != nil {
			return nil, err
		}
		cut, err := against(func(s Setup) (float64, error) { return cutStep(s, costs) }, standard, setup)
		if err != nil {
			return nil, err
		}
		full, err := against(func(s Setup) (float64, error) { return cutStep(s, paperCosts) }, standard, setup)
		if err != nil {
			return nil, err
		}
		panel.series[0].add(paper.Value.Value)
		panel.series[1].add(paper.Torchgpipe.Value)
		panel.series[2].add(cut)
		modelled, err := a.spec.Modelled.cells(log, amoebaRun(FLOPs, a.spec.Base), amoebaRun(FLOPs, c))
		if err != nil {
			return nil, err
		}
		row := append([]string{
			fmt.Sprint(c.K), fmt.Sprint(c.M), paper.Value.Text, paper.Torchgpipe.Text,
			fmt.Sprintf("%.2f", even), fmt.Sprintf("%.2f", cut), fmt.Sprintf("%.2f", full),
		}, modelled...)
		for j, cost := range a.costs {
			run := runs[amoebaRun(cost, c)]
			got := ratioOf(runs[amoebaRun(cost, a.spec.Base)].rounds, run.rounds)
			interval := got.interval()
			if c == a.spec.Base {
				interval = "-"
			}
			row = append(row, got.value(), interval, fmt.Sprintf("%.2f", got.median/paper.Value.Value))
			parts.Add(append([]string{cost.String()}, run.cells(a.setup(cost, c))...)...)
			if len(panel.series) < 4+j {
				panel.series = append(panel.series, barSeries{name: fmt.Sprintf("measured, cut by %v", cost)})
			}
			panel.series[3+j].addRatio(got)
		}
		if refs != nil {
			for _, cost := range a.costs {
				row = append(row, ratioOf(refs[amoebaRun(cost, a.spec.Base)].rounds, refs[amoebaRun(cost, c)].rounds).value())
			}
		}
		table.Add(row...)
	}
	table.Notes = append(table.Notes, a.imbalanceNote(runs))
	table.Notes = append(table.Notes, rounds.crowdNotes(log, gpipe.Emulated)...)
	table.Notes = append(table.Notes, rounds.fewNotes()...)
	if refs != nil {
		table.Notes = append(table.Notes, referenceNote(reference))
	}
	panels = append(panels, legendPanel{panels[0].(*barPanel)})
	report := &Report{Tables: []*Table{table, parts}}
	if report.Files, err = plotFiles(a.ID(), a.spec.Title, panels); err != nil {
		return nil, err
	}
	steps, err := rounds.stepTimes(log)
	if err != nil {
		return nil, err
	}
	report.Files = append(report.Files, File{a.ID() + ".bench.txt", benchFormat(log, steps)})
	return report, nil
}

// imbalanceNote says what the cuts come to where there are the most
// micro-batches, and so the least bubble.
func (a *amoeba) imbalanceNote(runs map[string]*measured) string {
	m := a.spec.M[len(a.spec.M)-1]
	var each []string
	for _, cost := range a.costs {
		var balances, losses []string
		for _, k := range a.spec.K {
			run := runs[amoebaRun(cost, cell{k, m})]
			balances = append(balances, fmt.Sprintf("%.2f", run.balance()))
			losses = append(losses, FormatShare(run.parts.Imbalance, run.span))
		}
		each = append(each, fmt.Sprintf("cut by %v their mean is %s of the largest, and %s of the step is imbalance", cost, strings.Join(balances, " / "), strings.Join(losses, " / ")))
	}
	return fmt.Sprintf("Stages' measured times at M = %d, K = %s: %s.", m, joinWith(a.spec.K, " / "), strings.Join(each, "; "))
}

func (a *amoeba) references(log *Log) (map[string]*measured, error) {
	profile, err := profileOf(a.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	return a.rounds(profile).all(log)
}
