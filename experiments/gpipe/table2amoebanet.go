package gpipe

import (
	"cmp"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/lab/shown"
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

func (a *table2Amoebanet) show(r *timed.Reporting[amoebanetProfile]) (shown.Rows, error) {
	costs, e1 := train.FlopsOf(r.Profile.Model)
	paperCosts, e2 := train.FlopsOf(a.Spec.PaperModel)
	beside := a.beside()
	besides, e3 := beside.cells(r.Log)
	if err := cmp.Or(e1, e2, e3); err != nil {
		return nil, err
	}
	base := a.Spec.Base
	r.Table.Caption = append(r.Table.Caption, beside.caption())
	var rows []shown.Values
	for _, c := range a.Spec.Cells() {
		theory, err := timed.Theory(amoebanetSetup(train.FLOPs, base), amoebanetSetup(train.FLOPs, c), costs, paperCosts)
		if err != nil {
			return nil, err
		}
		row := besides(c)
		row["torchgpipe"] = a.Spec.Paper.Of(c).Torchgpipe
		row["theory_even"], row["theory_cut"], row["theory_scale"] = theory[0], theory[1], theory[2]
		for _, cost := range a.costs {
			one, first, own := amoebanetRun(cost, base), amoebanetRun(cost, lab.Cell{K: base.K, M: c.M}), amoebanetRun(cost, c)
			row[fmt.Sprintf("measured_%v", cost)], row[fmt.Sprintf("growth_%v", cost)] = timed.Over(r.Runs, one, own), timed.Over(r.Runs, first, own)
			row[fmt.Sprintf("before_%v", cost)] = timed.Over(r.Refs, one, own)
		}
		rows = append(rows, row)
	}
	return shown.Rows{"": rows}, nil
}
