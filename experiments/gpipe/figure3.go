package gpipe

import (
	"cmp"
	"errors"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
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
	Modelled                   cells.Filling    `yaml:"modelled"`
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
	f.Check, f.Runs, f.Show, f.Also = f.check, f.runs, f.show, f.also
	f.Beside = func() []lab.Job { return f.jobs([]accelerator.Variation{{}, cells.AtPeak}) }
	return f, nil
}

func (f *figure3) check() *lab.Problem {
	if p := f.Spec.Modelled.Check(); p != nil {
		return p.In("modelled")
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
	return lab.CheckEach(f.Spec.Profiles, "models", func(p figure3Profile) int { return len(p.Models) }, len(f.Spec.Networks), "networks")
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

// jobs make the samples of all scenarios, with variations.
func (f *figure3) jobs(varied []accelerator.Variation) (jobs []lab.Job) {
	modellers := f.Spec.Modelled.Modellers(varied)
	for i, v := range varied {
		for _, s := range f.scenarios() {
			jobs = append(jobs, f.Spec.Modelled.Job(s.run(), s.setup, v, modellers(s.of.Model, s.setup), i))
		}
	}
	return jobs
}

func (f *figure3) show(r *timed.Reporting[figure3Profile]) (shown.Rows, error) {
	var rows []shown.Values
	for _, s := range f.scenarios() {
		base, run := s.of.base().run(), s.run()
		costs, e1 := train.FlopsOf(r.Profile.Models[s.network])
		theory, e2 := timed.Theory(s.of.base().setup, s.setup, costs)
		modelled, e3 := f.Spec.Modelled.Relative(r.Log, base, run, accelerator.Variation{})
		peak, e4 := f.Spec.Modelled.Relative(r.Log, base, run, cells.AtPeak)
		if err := cmp.Or(e1, e2, e3, e4); err != nil {
			return nil, err
		}
		one, own := r.Runs[base], r.Runs[run]
		rows = append(rows, shown.Values{
			"network": s.of.Name, "scenario": s.Name, "paper": s.paper(), "torchgpipe": s.Torchgpipe, "theory_even": theory[0], "theory_cut": theory[1],
			"fixed": modelled[0], "filled": modelled[1], "peak": peak[1], "work": own.Work() / one.Work(), "closed": one.Closed / own.Closed,
			"measured": timed.Over(r.Runs, base, run), "before": timed.Over(r.Refs, base, run),
		})
	}
	return shown.Rows{"": rows}, nil
}
