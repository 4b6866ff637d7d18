package gpipe

import (
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/plot"
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

func (t *table2) show(r *timed.Reporting[table2Profile]) error {
	costs, err := train.FlopsOf(r.Profile.Model)
	if err != nil {
		return err
	}
	paperCosts, err := train.FlopsOf(t.Spec.PaperModel)
	if err != nil {
		return err
	}
	beside := t.beside()
	besides, err := beside.cells(r.Log)
	if err != nil {
		return err
	}
	model, paperModel, base, table := r.Profile.Model, t.Spec.PaperModel, t.Spec.Base, r.Table
	table.Caption = append(table.Caption,
		fmt.Sprintf("The paper's 48 layers at reduced scale (dimension %d, feed-forward %d, heads %d, vocabulary %d, sequence %d: width divided by %.3g, sequence by %.3g; the softmax costs %.2f layers by FLOPs, the paper's %.2f), mini-batch %d throughout.",
			model.Dim, model.FF, model.Heads, model.Vocab, model.Seq, float64(paperModel.Dim)/float64(model.Dim), float64(paperModel.Seq)/float64(model.Seq),
			softmaxLayers(costs), softmaxLayers(paperCosts), t.Spec.Batch),
		beside.caption())
	table.Numbers("K", "M", "paper", "theory, even", "theory, cut", "closed form")
	table.Numbers(modelledColumns...)
	table.Numbers("measured", "95%", "measured/paper")
	table.Numbers(timed.Growth(base.K, "")...)
	r.ReferenceColumns("")
	r.Parts = timed.PartsTable("table2-steps", "Table 2: where the measured steps' time goes")
	one := r.Runs[table2Run(base)]
	for _, c := range t.Spec.Cells() {
		paper, run := t.Spec.Paper.Of(c).Value, r.Runs[table2Run(c)]
		theory, err := timed.Theory(t.setup(base), t.setup(c), costs)
		if err != nil {
			return err
		}
		table.Add(c.K, c.M, paper, theory, lab.Fixed(one.Closed/run.Closed, 2), besides(c),
			r.Measured(table2Run(base), table2Run(c), paper), timed.Relative(r.Runs, table2Run(lab.Cell{K: base.K, M: c.M}), table2Run(c)), r.Referred(table2Run(base), table2Run(c)))
		r.Parts.Add(run.Cells()...)
	}
	table.Notes = append(table.Notes, lab.StarNote(table)...)
	r.Panels = plot.TableBars{
		Panel: "M", Group: "K", Y: fmt.Sprintf("throughput relative to K = %d, M = %d", base.K, base.M),
		Across: "paper", Bars: []string{"measured", "modelled", "closed form", "theory, cut"},
	}.Panels(table)
	at := lab.Cell{K: t.Spec.K[len(t.Spec.K)/2], M: t.Spec.M[len(t.Spec.M)/2]} // in the grid's middle
	caption := fmt.Sprintf("Transformer-48, K = %d, M = %d, emulated", at.K, at.M)
	r.Files, err = r.Runs[table2Run(at)].Drawn(fmt.Sprintf("table2-K%d-M%d", at.K, at.M), "One step of "+caption, caption)
	return err
}

// softmaxLayers is what the last layer costs, in layers.
func softmaxLayers(costs []float64) float64 { return costs[len(costs)-1] / costs[1] }
