package gpipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// figure3Spec is the spec of figure3.
//
//lint:ignore U1000 it is the type argument of an embedded field, which staticcheck does not see
type figure3Spec struct {
	timed.Spec[figure3Profile] `yaml:",inline"`
	Torchgpipe                 string           `yaml:"torchgpipe"`        // source of its values
	M                          int              `yaml:"m" want:"1..65536"` // of the pipelines
	Modelled                   figure3Modelled  `yaml:"modelled"`
	Networks                   []figure3Network `yaml:"networks"`
}

// figure3Network is one half of the figure.
type figure3Network struct {
	Name      string      `yaml:"name" want:"name,key"`
	Model     train.Model `yaml:"model"`            // as the paper has it
	Base      string      `yaml:"base" want:"name"` // the scenario that is 1
	Scenarios []scenario  `yaml:"scenarios"`
}

// scenario is a way to run a network.
type scenario struct {
	Name          string `yaml:"name" want:"name,key"`
	lab.SetupSpec `yaml:",inline"`
	Paper         lab.Verbatim `yaml:"paper"`
	Torchgpipe    lab.Verbatim `yaml:"torchgpipe"`

	of      *figure3Network
	network int // its place
	setup   train.Setup
}

// figure3Modelled is steps at the paper's own scale on modelled accelerators.
type figure3Modelled struct {
	Accelerator string `yaml:"accelerator" want:"accelerator"`
	DType       string `yaml:"dtype" want:"dtype"`
	Optimizer   string `yaml:"optimizer" want:"optimizer"`
	// Batch is a mini-batch that fits everywhere. Another step has the largest of
	// its multiples, up to Most, that fits that pipeline.
	Batch int `yaml:"batch"`
	Most  int `yaml:"most"`
}

type figure3Profile struct {
	timed.Profile `yaml:",inline"`
	Models        []train.Model `yaml:"models"` // one for each network
	Batch         int           `yaml:"batch"`
	Naive         int           `yaml:"naive_steps" want:"1..1000"` // of a baseline in a round, whose tasks are too few for a median; of pipelines 1
}

// figure3 times scenarios of two networks on emulated devices, beside the paper's own on modelled
// accelerators.
type figure3 struct {
	timed.Timed[figure3Spec, figure3Profile]
}

func newFigure3() (lab.Experiment, error) {
	f := &figure3{}
	f.Runs, f.Show, f.Also = f.runs, f.show, f.also
	f.Beside = func() []lab.Job { return f.jobs([]accelerator.Variation{measuredRates, peakRates}) }
	return f, nil
}

func (f *figure3) Resolve() *lab.Problem {
	if m := f.Spec.Modelled; m.Most < m.Batch {
		return lab.At(fmt.Errorf("at most %d examples: want %d or more", m.Most, m.Batch), "modelled", "most")
	}
	for i := range f.Spec.Networks {
		n := &f.Spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			s.of, s.network, s.setup = n, i, s.SetupSpec.Setup()
			if s.Schedule != "naive" {
				s.setup.MicroBatches = f.Spec.M
			}
			s.setup.Device, s.setup.Threads = gpipe.Emulated, 1
		}
		if base := n.base(); base == nil || base.Paper != "" && base.Paper.Number() != 1 {
			return lab.At(errors.New("want the scenario whose value in the paper is 1"), "networks", fmt.Sprint(i), "base")
		}
	}
	if p := checkModels(len(f.Spec.Networks), func(profile string) int { return len(f.Spec.Profiles[profile].Models) }); p != nil {
		return p
	}
	return f.CheckRuns()
}

// base is the scenario that is 1; nil: none has its name.
func (n *figure3Network) base() *scenario {
	for i := range n.Scenarios {
		if n.Scenarios[i].Name == n.Base {
			return &n.Scenarios[i]
		}
	}
	return nil
}

func (s *scenario) run() string { return s.of.Name + "/" + s.Name }

// scenarios returns the scenarios of all networks.
func (f *figure3) scenarios() (all []*scenario) {
	for i := range f.Spec.Networks {
		for j := range f.Spec.Networks[i].Scenarios {
			all = append(all, &f.Spec.Networks[i].Scenarios[j])
		}
	}
	return all
}

func (f *figure3) runs(p figure3Profile) (runs []timed.Run) {
	for _, s := range f.scenarios() {
		model, steps := p.Models[s.network], 1
		if s.setup.MicroBatches == 1 {
			steps = p.Naive
		}
		runs = append(runs, timed.Run{
			Name: s.run(), Steps: steps,
			Training: train.Training{Model: model, Batch: p.Batch, Setup: s.setup},
		})
	}
	return runs
}

func (f *figure3) also() (list []lab.PlannedRun) {
	for i, n := range f.Spec.Networks {
		for j, s := range n.Scenarios {
			list = append(list, lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "scenarios", fmt.Sprint(j)}, Run: lab.ModelledRun{Model: n.Model, Most: s.setup.Partitions}})
		}
	}
	return list
}

// paper is the scenario's value, marked as read off a plot; the baseline's is 1 by
// definition.
func (s *scenario) paper() lab.Value {
	if s.Paper.Number() == 1 {
		return s.Paper.Printed("")
	}
	return lab.Joined("≈%v", s.Paper)
}

// figure3Step is the outcome of one pipeline on modelled accelerators. Nothing in it depends on the
// machine.
type figure3Step struct {
	Batch         int     `json:"batch"`
	Seconds       float64 `json:"seconds"`
	Filled        int     `json:"filled_batch"` // 0: not even Batch fits
	FilledSeconds float64 `json:"filled_seconds"`
}

// measuredRates is what is assumed of accelerators; peakRates is at their peaks, with samples
// whose names do not say which efficiencies.
var measuredRates, peakRates = accelerator.Variation{}, accelerator.Variation{Change: accelerator.AtPeak}

// name returns the name of a run's sample, with a variation of what is assumed of accelerators.
func (m figure3Modelled) name(run string, v accelerator.Variation) string {
	name := "modelled/" + run
	if v.Name != "" {
		name += "/" + v.Name
	}
	return lab.AtRates(name, m.Accelerator, v.Change)
}

// jobs make the samples of all scenarios, with variations.
func (f *figure3) jobs(varied []accelerator.Variation) (jobs []lab.Job) {
	modellers := f.Spec.Modelled.modellers(varied)
	for _, v := range varied {
		for _, s := range f.scenarios() {
			jobs = append(jobs, f.Spec.Modelled.job(s.run(), s.of.Model, s.setup, v, modellers))
		}
	}
	return jobs
}

// figure3Modellers returns the Modeller of a network in an order, with a variation of those that it is for.
type figure3Modellers func(model train.Model, order train.Setup, v accelerator.Variation) (*cells.Modeller, error)

func (m figure3Modelled) modellers(varied []accelerator.Variation) figure3Modellers {
	var lock sync.Mutex
	made := map[string]func() ([]*cells.Modeller, error){}
	return func(model train.Model, order train.Setup, v accelerator.Variation) (*cells.Modeller, error) {
		lock.Lock()
		key := fmt.Sprint(model, order.Schedule, order.Checkpoint)
		of := made[key]
		if of == nil {
			var networks []*cells.Network
			for _, v := range varied {
				networks = append(networks, &cells.Network{Model: model, Accelerator: m.Accelerator, DType: m.DType, Optimizer: m.Optimizer, Change: v.Change})
			}
			of = cells.ModellersOf(false, &order, networks...)
			made[key] = of
		}
		lock.Unlock()
		all, err := of()
		if err != nil {
			return nil, err
		}
		return all[slices.IndexFunc(varied, func(o accelerator.Variation) bool { return m.name("", o) == m.name("", v) })], nil
	}
}

// job makes the sample of a run.
func (m figure3Modelled) job(run string, model train.Model, s train.Setup, v accelerator.Variation, modellers figure3Modellers) lab.Job {
	return lab.Making(m.name(run, v), 0, func(ctx context.Context) (*figure3Step, error) {
		on, err := modellers(model, train.Setup{Schedule: s.Schedule, Checkpoint: s.Checkpoint}, v)
		if err != nil {
			return nil, err
		}
		return m.model(ctx, on, s)
	})
}

// model simulates a run with both mini-batches.
func (m figure3Modelled) model(ctx context.Context, on *cells.Modeller, s train.Setup) (*figure3Step, error) {
	simulated := func(batch int) (*cells.Step, float64, error) {
		micro := batch / s.MicroBatches
		sizes, err := on.Cut(ctx, s, s.Partitions, micro)
		if err != nil {
			return nil, 0, err
		}
		return on.Guess(ctx, sizes, micro, s.MicroBatches)
	}
	fixed, fill, err := simulated(m.Batch)
	if err != nil {
		return nil, err
	}
	out := &figure3Step{Batch: m.Batch, Seconds: fixed.Early}
	multiples := make([]int, m.Most/m.Batch)
	for i := range multiples {
		multiples[i] = (i + 1) * m.Batch
	}
	guess := min(max(int(fill*float64(s.MicroBatches))/m.Batch, 1), len(multiples)) - 1
	largest, err := searchBorder(multiples, guess, func(batch int) (bool, error) {
		step, _, err := simulated(batch)
		return err == nil && step.Fits, err
	})
	if err != nil || largest.Fits == 0 {
		return out, err
	}
	filled, _, err := simulated(largest.Fits)
	if err == nil {
		out.Filled, out.FilledSeconds = largest.Fits, filled.Early
	}
	return out, err
}

// relative are a run's modelled throughputs relative to a base's, with a variation: with the
// fixed mini-batch, and with those that fill memory if some fit both.
func (m figure3Modelled) relative(log *records.Log, base, run string, v accelerator.Variation) ([]lab.Value, error) {
	var b, s figure3Step
	if err := cmp.Or(log.Get(m.name(base, v), &b), log.Get(m.name(run, v), &s)); err != nil {
		return nil, err
	}
	filled := lab.Absent
	if s.Filled > 0 && b.Filled > 0 {
		filled = lab.Fixed(float64(s.Filled)/s.FilledSeconds/(float64(b.Filled)/b.FilledSeconds), 2)
	}
	fixed := lab.Fixed(float64(s.Batch)/s.Seconds/(float64(b.Batch)/b.Seconds), 2)
	return []lab.Value{lab.Starred(fixed, s.Filled > 0 && b.Filled > 0), filled}, nil
}

func (m figure3Modelled) caption() string {
	return fmt.Sprintf("Modelled: the paper's own network in %s on %s, a roofline for every operation at measured rates (at peak: at the accelerator's peak), memory and links as planned, %s; with a mini-batch of %d throughout, and with the largest multiple of %d (up to %d) that fits the pipeline.",
		m.DType, m.Accelerator, m.Optimizer, m.Batch, m.Batch, m.Most)
}

func (f *figure3) show(r *timed.Reporting[figure3Profile]) error {
	cut := f.Spec.Networks[0].Scenarios[0].setup
	table := r.Table
	table.Caption = []string{
		fmt.Sprintf("Throughput relative to naive-k: the network over k accelerators, one at a time, M = 1, nothing recomputed. Pipeline-k: GPipe over k accelerators, M = %d, everything recomputed, early; whole layers cut by %v over %v. Mini-batch %d throughout (the paper adjusted it to maximise throughput), free links, one thread a device, %s.",
			f.Spec.M, cut.Partitioner, cut.Cost, r.Profile.Batch, f.Spec.Optimizer),
		timed.EmulatedCaption(r.Profile.Rounds, "scenario"),
		timed.TheoryCaption,
		f.Spec.Modelled.caption(),
		"Work: the time of all F and B together, relative to the baseline. It is not 1 on processors: small micro-batches fit their caches better, and every micro-batch reads all weights.",
		"Source of the paper's values: " + f.Spec.Source + "; ≈ marks them, since the paper prints no figures. torchgpipe: " + f.Spec.Torchgpipe + ".",
	}
	table.Texts("network", "scenario")
	table.Numbers("paper", "torchgpipe", "theory, even", "theory, cut", "modelled, fixed batch", "modelled, memory filled", "at peak, memory filled",
		"work", "closed form", "measured", "95%", "measured/paper")
	r.ReferenceColumns("")
	costs := make([][]float64, len(f.Spec.Networks))
	for i, model := range r.Profile.Models {
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %v.", f.Spec.Networks[i].Name, model))
		var err error
		if costs[i], err = train.FlopsOf(model); err != nil {
			return err
		}
	}
	for _, s := range f.scenarios() {
		base, run := s.of.base().run(), s.run()
		one, m := r.Runs[base], r.Runs[run]
		theory, e1 := timed.Theory(s.of.base().setup, s.setup, costs[s.network])
		modelled, e2 := f.Spec.Modelled.relative(r.Log, base, run, measuredRates)
		peak, e3 := f.Spec.Modelled.relative(r.Log, base, run, peakRates)
		if err := cmp.Or(e1, e2, e3); err != nil {
			return err
		}
		table.Add(s.of.Name, s.Name, s.paper(), s.Torchgpipe, theory, modelled, peak[1], lab.Fixed(m.Work()/one.Work(), 2), lab.Fixed(one.Closed/m.Closed, 2),
			r.Measured(base, run, s.Paper), r.Referred(base, run))
	}
	table.Notes = append(table.Notes, lab.StarNote(table)...)
	r.Panels = plot.TableBars{
		Panel: "network", Group: "scenario", Y: "throughput relative to naive",
		Across: "paper", Bars: []string{"measured", "modelled, memory filled", "torchgpipe", "theory, cut"},
	}.Panels(table)
	return nil
}
