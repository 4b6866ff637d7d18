package gpipe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// table2Spec is the spec of table2.
type table2Spec struct {
	timed.Spec[table2Profile] `yaml:",inline"`
	lab.Grid                  `yaml:",inline"`
	Batch                     int    `yaml:"batch"`
	Schedule                  string `yaml:"schedule" want:"schedule"`
	Checkpoint                string `yaml:"checkpoint" want:"checkpoint"`
	Late                      bool   `yaml:"late_recompute"`
	cells.CutSpec             `yaml:",inline"`
	Paper                     lab.PaperCells `yaml:"paper" want:"optional"`
	PaperModel                train.Model    `yaml:"paper_model"`
}

type table2Profile struct {
	timed.Profile `yaml:",inline"`
	Model         train.Model    `yaml:"model"`
	Steps         timed.StepsByM `yaml:"steps" want:"1..1000"`
}

// table2 times training steps over a grid of K and M on emulated devices.
type table2 struct {
	timed.Timed[table2Spec, table2Profile]
	Modelled modelledBeside

	conventions train.Setup // without K, M and device
}

func newTable2() (lab.Experiment, error) {
	beside, err := modelledNetwork("transformer")
	t := &table2{Modelled: beside}
	t.Runs, t.Show, t.Also = t.runs, t.show, t.Spec.also
	t.Beside = func() []lab.Job { return t.beside().Jobs() }
	t.Others, t.Partly = beside.Decides, true
	return t, err
}

func (t *table2) Resolve() *lab.Problem {
	t.conventions = t.Spec.CutSpec.Setup(lab.SetupSpec{Schedule: t.Spec.Schedule, Checkpoint: t.Spec.Checkpoint, Late: t.Spec.Late, Threads: 1}.Setup())
	if p := t.Spec.CheckPaper(t.Spec.Paper); p != nil {
		return p
	}
	if p := t.CheckRuns("batch"); p != nil {
		return p
	}
	return t.beside().check()
}

// beside is what is modelled for the spec's cells.
func (t *table2) beside() modelledBeside { return t.Modelled.of(t.Spec.Grid, t.Spec.Paper) }

func (s *table2Spec) also() []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"paper_model"}, Run: lab.ModelledRun{Model: s.PaperModel, Most: slices.Max(s.K)}}}
}

func table2Run(c lab.Cell) string { return fmt.Sprintf("emulated/K=%d/M=%d", c.K, c.M) }

func (t *table2) runs(p table2Profile) (runs []timed.Run) {
	for _, c := range t.Spec.Cells() {
		runs = append(runs, timed.Run{
			Name: table2Run(c), Steps: p.Steps.At(c.M), Training: train.Training{Model: p.Model, Batch: t.Spec.Batch, Setup: t.setup(c)},
		})
	}
	return runs
}

// setup is a cell on emulated devices.
func (t *table2) setup(c lab.Cell) train.Setup {
	s := t.conventions
	s.Partitions, s.MicroBatches, s.Device = c.K, c.M, gpipe.Emulated
	return s
}

func (t *table2) show(r *timed.Reporting[table2Profile]) (shown.Rows, error) {
	costs, e1 := train.FlopsOf(r.Profile.Model)
	paperCosts, e2 := train.FlopsOf(t.Spec.PaperModel)
	beside := t.beside()
	besides, e3 := beside.cells(r.Log)
	if err := cmp.Or(e1, e2, e3); err != nil {
		return nil, err
	}
	model, paperModel, base := r.Profile.Model, t.Spec.PaperModel, t.Spec.Base
	r.Table.Caption = append(r.Table.Caption,
		fmt.Sprintf("The paper's 48 layers at reduced scale (dimension %d, feed-forward %d, heads %d, vocabulary %d, sequence %d: width divided by %.3g, sequence by %.3g; the softmax costs %.2f layers by FLOPs, the paper's %.2f), mini-batch %d throughout.",
			model.Dim, model.FF, model.Heads, model.Vocab, model.Seq, float64(paperModel.Dim)/float64(model.Dim), float64(paperModel.Seq)/float64(model.Seq),
			softmaxLayers(costs), softmaxLayers(paperCosts), t.Spec.Batch),
		beside.caption())
	r.Parts = timed.PartsTable("table2-steps", "Table 2: where the measured steps' time goes")
	var rows []shown.Values
	for _, c := range t.Spec.Cells() {
		theory, err := timed.Theory(t.setup(base), t.setup(c), costs)
		if err != nil {
			return nil, err
		}
		row := besides(c)
		one, first, own := table2Run(base), table2Run(lab.Cell{K: base.K, M: c.M}), table2Run(c)
		maps.Copy(row, shown.Values{
			"theory_even": theory[0], "theory_cut": theory[1], "closed": r.Runs[one].Closed / r.Runs[own].Closed,
			"measured": timed.Over(r.Runs, one, own), "growth": timed.Over(r.Runs, first, own), "before": timed.Over(r.Refs, one, own),
		})
		rows = append(rows, row)
		r.Parts.Add(r.Runs[own].Cells()...)
	}
	at := lab.Cell{K: t.Spec.K[len(t.Spec.K)/2], M: t.Spec.M[len(t.Spec.M)/2]} // in the grid's middle
	caption := fmt.Sprintf("Transformer-48, K = %d, M = %d, emulated", at.K, at.M)
	var err error
	r.Files, err = r.Runs[table2Run(at)].Drawn(fmt.Sprintf("table2-K%d-M%d", at.K, at.M), "One step of "+caption, caption)
	return shown.Rows{"": rows}, err
}

// softmaxLayers is what the last layer costs, in layers.
func softmaxLayers(costs []float64) float64 { return costs[len(costs)-1] / costs[1] }
