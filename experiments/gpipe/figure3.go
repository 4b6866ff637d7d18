// Package figure3 measures speed-ups over naive model parallelism (Figure 3 of V1).
package figure3

import (
	"embed"
	"errors"
	"fmt"
	"math"

	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "figure3", Folder: folder, New: load}

// spec is spec.yaml.
type spec struct {
	timed.Spec[profile] `yaml:",inline"`
	Torchgpipe          string       `yaml:"torchgpipe"`        // source of its values
	M                   int          `yaml:"m" want:"1..65536"` // of the pipelines
	Modelled            modelledSpec `yaml:"modelled"`
	Networks            []network    `yaml:"networks"`
}

// network is one half of the figure.
type network struct {
	Name      string      `yaml:"name" want:"name,key"`
	Model     train.Model `yaml:"model"`            // as the paper has it
	Base      string      `yaml:"base" want:"name"` // the scenario that is 1
	Scenarios []scenario  `yaml:"scenarios"`
}

// scenario is a way to run a network.
type scenario struct {
	Name          string `yaml:"name" want:"name,key"`
	lab.SetupSpec `yaml:",inline"`
	Paper         lab.Verbatim  `yaml:"paper"`
	Torchgpipe    *lab.Verbatim `yaml:"torchgpipe"`

	setup train.Setup
}

type profile struct {
	timed.Profile `yaml:",inline"`
	Models        []train.Model `yaml:"models"` // one for each network
	Batch         int           `yaml:"batch"`
	Naive         int           `yaml:"naive_steps" want:"1..1000"` // of a baseline in a round, whose tasks are too few for a median; of pipelines 1
}

// Experiment times scenarios of two networks on emulated devices.
type Experiment struct {
	timed.Timed[spec, profile]
}

func load() (lab.Experiment, error) {
	f := &Experiment{}
	f.Runs, f.Show, f.Beside, f.Also = f.Spec.runs, f.show, f.Spec.modelledJobs, f.Spec.planModelled
	return f, nil
}

func (f *Experiment) Resolve() *lab.Problem {
	if m := f.Spec.Modelled; m.Most < m.Batch {
		return lab.At(fmt.Errorf("at most %d examples: want %d or more", m.Most, m.Batch), "modelled", "most")
	}
	for i := range f.Spec.Networks {
		n := &f.Spec.Networks[i]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			s.setup = s.SetupSpec.Setup()
			if s.Schedule != "naive" {
				s.setup.MicroBatches = f.Spec.M
			}
			s.setup.Device, s.setup.Threads = gpipe.Emulated, 1
		}
		if base := n.base(); base == nil || base.Paper.Value != 1 {
			return lab.At(errors.New("want the scenario whose value in the paper is 1"), "networks", fmt.Sprint(i), "base")
		}
	}
	for _, name := range lab.Profiles {
		if p := f.Spec.Profiles[name]; len(p.Models) != len(f.Spec.Networks) {
			return lab.At(fmt.Errorf("%d models for %d networks: want one for each", len(p.Models), len(f.Spec.Networks)), "profiles", name, "models")
		}
	}
	return f.CheckRuns()
}

// base is the scenario that is 1; nil: none has its name.
func (n *network) base() *scenario {
	for i := range n.Scenarios {
		if n.Scenarios[i].Name == n.Base {
			return &n.Scenarios[i]
		}
	}
	return nil
}

func runName(n *network, s *scenario) string { return n.Name + "/" + s.Name }

// each calls do for every scenario, with the index of its network and its own.
func (f *spec) each(do func(i, j int, n *network, s *scenario) error) error {
	for i := range f.Networks {
		n := &f.Networks[i]
		for j := range n.Scenarios {
			if err := do(i, j, n, &n.Scenarios[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *spec) runs(p profile) (runs []timed.Run) {
	_ = f.each(func(i, _ int, n *network, s *scenario) error {
		steps := 1
		if s.setup.MicroBatches == 1 {
			steps = p.Naive
		}
		runs = append(runs, timed.Run{
			Name: runName(n, s), Bench: fmt.Sprintf("model=%s/scenario=%s", p.Models[i].Name, s.Name), Steps: steps,
			Training: train.Training{Model: p.Models[i], Batch: p.Batch, Setup: s.setup},
		})
		return nil
	})
	return runs
}

func (f *spec) modelledJobs() []lab.Job { return append(f.jobs(measured), f.jobs(atPeak)...) }

func (f *spec) planModelled() (list []lab.PlannedRun) {
	_ = f.each(func(i, j int, n *network, s *scenario) error {
		list = append(list, lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "scenarios", fmt.Sprint(j)}, Run: lab.ModelledRun{Model: n.Model, Most: s.setup.Partitions}})
		return nil
	})
	return list
}

// paper is the scenario's value, marked as read off a plot; the baseline's is 1 by
// definition.
func (s *scenario) paper() lab.Value {
	if s.Paper.Value == 1 {
		return lab.Joined("%v", s.Paper)
	}
	return lab.Joined("≈%v", s.Paper)
}

// missNote says where the model is farthest from the paper in the picture, and why.
func missNote(t *lab.Table) string {
	paper, modelled := t.Column("paper"), t.Column("modelled, memory filled")
	farthest, off := 0, 0.0
	for i, row := range t.Rows {
		if want, got := row[paper].Numbers, row[modelled].Numbers; len(want) > 0 && len(got) > 0 {
			if miss := math.Abs(got[0] - want[0]); miss > off {
				farthest, off = i, miss
			}
		}
	}
	row := t.Rows[farthest]
	return fmt.Sprintf("The model's largest miss: %v, %v, %v against the paper's %v. The cut balances FLOPs, as the paper says, but on the modelled accelerator layers of equal FLOPs take unequal times, so that one stage holds up the others. How much that costs each network is in the experiment ablation.",
		row[t.Column("network")], row[t.Column("scenario")], row[modelled], row[paper])
}

func (f *Experiment) show(r *timed.Reporting[profile]) error {
	cut := f.Spec.Networks[0].Scenarios[1].setup
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
	table.Numbers("paper", "torchgpipe", "theory, even", "theory, cut")
	table.Numbers(modelledColumns...)
	table.Numbers("work", "closed form", "measured", "95%", "measured/paper")
	r.ReferenceColumns("")
	r.Parts = timed.PartsTable("figure3-steps", "Figure 3: where the measured steps' time goes", "network", "scenario")
	costs := make([][]float64, len(f.Spec.Networks))
	for i, model := range r.Profile.Models {
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %v.", f.Spec.Networks[i].Name, model))
		var err error
		if costs[i], err = train.FlopsOf(model); err != nil {
			return err
		}
	}
	err := f.Spec.each(func(i, _ int, n *network, s *scenario) error {
		base, run := runName(n, n.base()), runName(n, s)
		one, m := r.Runs[base], r.Runs[run]
		theory, err := timed.Theory(n.base().setup, s.setup, costs[i])
		if err != nil {
			return err
		}
		modelled, err := f.Spec.Modelled.cells(r.Log, base, run)
		if err != nil {
			return err
		}
		table.Add(n.Name, s.Name, s.paper(), s.Torchgpipe, theory, modelled, lab.Fixed(m.Work()/one.Work(), 2), lab.Fixed(one.Closed/m.Closed, 2),
			r.Measured(base, run, s.Paper.Value), r.Referred(base, run))
		r.Parts.Add(n.Name, s.Name, m.Cells())
		return nil
	})
	if err != nil {
		return err
	}
	table.Notes = append(table.Notes, missNote(table))
	r.Panels = plot.TableBars{
		Panel: "network", Group: "scenario", Y: "throughput relative to naive",
		Across: "paper", Bars: []string{"measured", "modelled, memory filled", "torchgpipe", "theory, cut"},
	}.Panels(table)
	return nil
}
