package gpipe

import (
	"fmt"
	"slices"

	"gpipebench/gpipe"
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
	a.Check, a.Runs, a.Show, a.Also = a.check, a.runs, a.show, a.Spec.also
	a.Beside = func() []lab.Job { return a.beside().Jobs() }
	a.Others, a.Partly = beside.Decides, true
	return a, err
}

func (a *table2Amoebanet) check() *lab.Problem {
	a.costs = nil
	for _, name := range a.Spec.Costs {
		a.costs = append(a.costs, lab.Named(train.ParseCost, name))
	}
	if p := a.Spec.CheckPaper(a.Spec.Paper); p != nil {
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
	table.Caption = append(table.Caption, beside.caption())
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
	table.Notes = append(table.Notes, lab.StarNote(table)...)
	r.Panels = plot.TableBars{Panel: "M", Group: "K", Y: fmt.Sprintf("throughput relative to K = %d, M = %d", base.K, base.M), Across: "paper", Bars: append(bars, "modelled", "torchgpipe", "theory, cut")}.Panels(table)
	return nil
}
