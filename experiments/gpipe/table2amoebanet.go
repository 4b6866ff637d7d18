package gpipe

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// amoebanetSpec is the spec of table2-amoebanet.
type amoebanetSpec struct {
	timed.Spec[amoebanetProfile] `yaml:",inline"`
	Torchgpipe                   string `yaml:"torchgpipe"` // source of its values
	lab.Grid                     `yaml:",inline"`
	Costs                        []string       `yaml:"costs" want:"cost"`
	Paper                        lab.PaperCells `yaml:"paper" want:"optional"`
	PaperModel                   train.Model    `yaml:"paper_model"`
}

type amoebanetProfile struct {
	timed.Profile `yaml:",inline"`
	Model         train.Model    `yaml:"model"`
	Batch         int            `yaml:"batch"`
	Steps         timed.StepsByM `yaml:"steps" want:"1..1000"`
}

// table2Amoebanet is Table 2's other half: a grid of K and M on emulated devices, cut in
// several ways.
type table2Amoebanet struct {
	timed.Timed[amoebanetSpec, amoebanetProfile]
	Modelled modelledBeside

	costs []train.Cost
}

func newTable2Amoebanet() (lab.Experiment, error) {
	beside, err := modelledNetwork("amoebanet")
	a := &table2Amoebanet{Modelled: beside}
	a.Runs, a.Show, a.Also = a.runs, a.show, a.Spec.also
	a.Beside = func() []lab.Job { return a.beside().Jobs() }
	a.Others, a.Partly = beside.Decides, true
	return a, err
}

func (a *table2Amoebanet) Resolve() *lab.Problem {
	a.costs = nil
	for _, name := range a.Spec.Costs {
		a.costs = append(a.costs, lab.Named(train.ParseCost, name))
	}
	if p := a.Spec.CheckPaper(a.Spec.Paper); p != nil {
		return p
	}
	if p := a.CheckRuns(); p != nil {
		return p
	}
	return a.beside().check()
}

// beside is what is modelled for the spec's cells.
func (a *table2Amoebanet) beside() modelledBeside { return a.Modelled.of(a.Spec.Grid, a.Spec.Paper) }

func (s *amoebanetSpec) also() []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"paper_model"}, Run: lab.ModelledRun{Model: s.PaperModel, Most: slices.Max(s.K)}}}
}

func amoebanetRun(cost train.Cost, c lab.Cell) string {
	return fmt.Sprintf("cut=%v/K=%d/M=%d", cost, c.K, c.M)
}

func amoebanetSetup(cost train.Cost, c lab.Cell) train.Setup {
	return train.Setup{Partitions: c.K, MicroBatches: c.M, Cost: cost, Device: gpipe.Emulated, Threads: 1}
}

// runs are every cell with every cut.
func (a *table2Amoebanet) runs(p amoebanetProfile) (runs []timed.Run) {
	for _, c := range a.Spec.Cells() {
		for _, cost := range a.costs {
			runs = append(runs, timed.Run{Name: amoebanetRun(cost, c), Steps: p.Steps.At(c.M), Training: train.Training{Model: p.Model, Batch: p.Batch, Setup: amoebanetSetup(cost, c)}})
		}
	}
	return runs
}

func (a *table2Amoebanet) show(r *timed.Reporting[amoebanetProfile]) error {
	costs, err := train.FlopsOf(r.Profile.Model)
	if err != nil {
		return err
	}
	paperCosts, err := train.FlopsOf(a.Spec.PaperModel)
	if err != nil {
		return err
	}
	beside := a.beside()
	besides, err := beside.cells(r.Log)
	if err != nil {
		return err
	}
	base, table := a.Spec.Base, r.Table
	standard := amoebanetSetup(train.FLOPs, base)
	table.Caption = []string{
		fmt.Sprintf("The paper's 18 normal cells at reduced scale: %v, mini-batch %d throughout (the paper adjusted it to fit memory, torchgpipe for every cell).", r.Profile.Model, r.Profile.Batch),
		fmt.Sprintf("Conventions: schedule %v, checkpoint %v, recomputation %s, cuts at whole layers by %v, free links, one thread a device, %s. Every cell is cut twice: to balance FLOPs, and to balance what each layer takes by itself on this machine, measured beforehand. Each cut is relative to its own K = %d, M = %d.",
			standard.Schedule, standard.Checkpoint, lab.EarlyOrLate(standard.LateRecompute), standard.Partitioner, a.Spec.Optimizer, base.K, base.M),
		timed.EmulatedCaption(r.Profile.Rounds, "cell"),
		"Theory, even: the closed form for even stages, f:r:b = 1:1:2. Theory, cut: the schedule replayed for the stages as cut by FLOPs, FLOPs for times, f:r:b = 1:1:2, at the measured scale and at the paper's.",
		beside.caption(),
		"Source of the paper's values: " + a.Spec.Source + ". torchgpipe: " + a.Spec.Torchgpipe + ".",
	}
	table.Numbers("K", "M", "paper", "torchgpipe", "theory, even", "theory, cut", "theory, cut, paper's scale")
	table.Numbers(modelledColumns...)
	var bars []string
	for _, cost := range a.costs {
		measured := fmt.Sprintf("measured, cut by %v", cost)
		table.Numbers(measured, fmt.Sprintf("95%%, %v", cost), fmt.Sprintf("measured/paper, %v", cost))
		table.Numbers(timed.Growth(base.K, fmt.Sprintf(", %v", cost))...)
		bars = append(bars, measured)
	}
	for _, cost := range a.costs {
		r.ReferenceColumns(fmt.Sprintf(", %v", cost))
	}
	for _, c := range a.Spec.Cells() {
		paper := a.Spec.Paper.Of(c)
		theory, err := timed.Theory(standard, amoebanetSetup(train.FLOPs, c), costs, paperCosts)
		if err != nil {
			return err
		}
		var measured, referred []lab.Value
		for _, cost := range a.costs {
			one, run := amoebanetRun(cost, base), amoebanetRun(cost, c)
			measured = append(measured, r.Measured(one, run, paper.Value)...)
			measured = append(measured, timed.Relative(r.Runs, amoebanetRun(cost, lab.Cell{K: base.K, M: c.M}), run)...)
			referred = append(referred, r.Referred(one, run)...)
		}
		table.Add(c.K, c.M, paper.Value, paper.Torchgpipe, theory, besides(c), measured, referred)
	}
	table.Notes = append(append(table.Notes, lab.StarNote(table)...), a.imbalanceNote(r.Runs))
	r.Panels = plot.TableBars{Panel: "M", Group: "K", Y: fmt.Sprintf("throughput relative to K = %d, M = %d", base.K, base.M), Across: "paper", Bars: append(bars, "modelled", "torchgpipe", "theory, cut")}.Panels(table)
	return nil
}

// imbalanceNote says what the cuts come to where there are the most
// micro-batches, and so the least bubble.
func (a *table2Amoebanet) imbalanceNote(runs map[string]*timed.Measured) string {
	m := slices.Max(a.Spec.M)
	var each []string
	for _, cost := range a.costs {
		var balances, losses []string
		for _, k := range a.Spec.K {
			run := runs[amoebanetRun(cost, lab.Cell{K: k, M: m})]
			balances = append(balances, fmt.Sprintf("%.2f", run.Balance()))
			losses = append(losses, units.FormatShare(run.Parts.Imbalance, run.Parts.Step))
		}
		each = append(each, fmt.Sprintf("cut by %v their mean is %s of the largest, and %s of the step is imbalance", cost, strings.Join(balances, " / "), strings.Join(losses, " / ")))
	}
	return fmt.Sprintf("Stages' measured times at M = %d, K = %s: %s.", m, lab.JoinWith(a.Spec.K, " / "), strings.Join(each, "; "))
}
