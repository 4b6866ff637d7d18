package gpipe

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/internal/stats"
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
	HostM                     int            `yaml:"host_m" want:"1..65536"`
	Paper                     lab.PaperCells `yaml:"paper"`
	PaperModel                train.Model    `yaml:"paper_model"`
}

type table2Profile struct {
	timed.Profile `yaml:",inline"`
	Model         train.Model `yaml:"model"`
	Steps         map[int]int `yaml:"steps" want:"1..1000"` // in a round, by M
}

// table2 times training steps over a grid of K and M on emulated devices, and
// K = 1 and 2 on real ones.
type table2 struct {
	timed.Timed[table2Spec, table2Profile]
	Modelled modelled.Beside

	conventions train.Setup // without K, M and device
}

func newTable2() (lab.Experiment, error) {
	beside, err := modelled.Network("transformer")
	t := &table2{Modelled: beside}
	t.Runs, t.Show, t.Also = t.runs, t.show, t.Spec.also
	t.Beside, t.Others = beside.Jobs, beside.Decides
	return t, err
}

func (t *table2) Resolve() *lab.Problem {
	t.conventions = t.Spec.CutSpec.Setup(lab.SetupSpec{Schedule: t.Spec.Schedule, Checkpoint: t.Spec.Checkpoint, Late: t.Spec.Late, Threads: 1}.Setup())
	if p := t.CheckRuns("batch"); p != nil {
		return p
	}
	if !slices.Contains(t.Spec.Cells(), lab.Cell{K: 2, M: t.Spec.HostM}) {
		return lab.At(errors.New("want one of m, and 2 among k: real cores are held against emulated ones"), "host_m")
	}
	return t.Spec.CheckPaper(t.Spec.Paper)
}

func (s *table2Spec) also() []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"paper_model"}, Run: lab.ModelledRun{Model: s.PaperModel, Most: slices.Max(s.K)}}}
}

func table2Run(device gpipe.Kind, c lab.Cell) string {
	return fmt.Sprintf("%v/K=%d/M=%d", device, c.K, c.M)
}

// runs are the grid on emulated devices and, if there are two cores, one and
// two partitions on host devices.
func (t *table2) runs(p table2Profile) (runs []timed.Run) {
	add := func(device gpipe.Kind, c lab.Cell, cores int) {
		s := t.setup(c)
		s.Device = device
		runs = append(runs, timed.Run{
			Name: table2Run(device, c), Bench: "device=" + table2Run(device, c), Steps: p.Steps[c.M], Cores: cores,
			Training: train.Training{Model: p.Model, Batch: t.Spec.Batch, Setup: s},
		})
	}
	for _, c := range t.Spec.Cells() {
		add(gpipe.Emulated, c, 1)
	}
	for _, k := range []int{1, 2} {
		add(gpipe.Host, lab.Cell{K: k, M: t.Spec.HostM}, 2)
	}
	return runs
}

// setup is a cell on emulated devices.
func (t *table2) setup(c lab.Cell) train.Setup {
	s := t.conventions
	s.Partitions, s.MicroBatches, s.Device = c.K, c.M, gpipe.Emulated
	return s
}

// table2Emulated names the run of a cell on emulated devices.
func table2Emulated(c lab.Cell) string { return table2Run(gpipe.Emulated, c) }

func (t *table2) show(r *timed.Reporting[table2Profile]) error {
	costs, err := train.FlopsOf(r.Profile.Model)
	if err != nil {
		return err
	}
	paperCosts, err := train.FlopsOf(t.Spec.PaperModel)
	if err != nil {
		return err
	}
	besides, err := t.Modelled.Cells(r.Log)
	if err != nil {
		return err
	}
	model, paperModel, base, table := r.Profile.Model, t.Spec.PaperModel, t.Spec.Base, r.Table
	table.Caption = []string{
		fmt.Sprintf("The paper's 48 layers at reduced scale (dimension %d, feed-forward %d, heads %d, vocabulary %d, sequence %d: width divided by %.3g, sequence by %.3g; the softmax costs %.2f layers by FLOPs, the paper's %.2f), mini-batch %d throughout.",
			model.Dim, model.FF, model.Heads, model.Vocab, model.Seq, float64(paperModel.Dim)/float64(model.Dim), float64(paperModel.Seq)/float64(model.Seq),
			softmaxLayers(costs), softmaxLayers(paperCosts), t.Spec.Batch),
		fmt.Sprintf("Conventions: schedule %v, checkpoint %v, recomputation %s, cuts at whole layers by %v over %v, free links, one thread a device, %s.",
			t.conventions.Schedule, t.conventions.Checkpoint, lab.EarlyOrLate(t.Spec.Late), t.conventions.Partitioner, t.conventions.Cost, t.Spec.Optimizer),
		timed.EmulatedCaption(r.Profile.Rounds, "cell"),
		timed.TheoryCaption,
		t.Modelled.Caption(),
		"Source of the paper's values: " + t.Spec.Source + ". torchgpipe has no Transformer row.",
	}
	table.Numbers("K", "M", "paper", "theory, even", "theory, cut", "closed form")
	table.Numbers(modelled.Columns...)
	table.Numbers("measured", "95%", "measured/paper")
	table.Numbers(timed.Growth(base.K, "")...)
	r.ReferenceColumns("")
	r.Parts = timed.PartsTable("table2-steps", "Table 2: where the measured steps' time goes")
	one := r.Runs[table2Emulated(base)]
	for _, c := range t.Spec.Cells() {
		paper, run := t.Spec.Paper.Of(c).Value, r.Runs[table2Emulated(c)]
		theory, err := timed.Theory(t.setup(base), t.setup(c), costs)
		if err != nil {
			return err
		}
		table.Add(c.K, c.M, paper, theory, lab.Fixed(one.Closed/run.Closed, 2), besides(c),
			r.Measured(table2Emulated(base), table2Emulated(c), paper.Value), timed.Relative(r.Runs, table2Emulated(lab.Cell{K: base.K, M: c.M}), table2Emulated(c)), r.Referred(table2Emulated(base), table2Emulated(c)))
		r.Parts.Add(run.Cells()...)
	}
	timed.FreeLinks(r.Parts)
	table.Notes = append(table.Notes, t.boundNotes()...)
	r.Panels = plot.TableBars{
		Panel: "M", Group: "K", Y: fmt.Sprintf("throughput relative to K = %d, M = %d", base.K, base.M),
		Across: "paper", Bars: []string{"measured", "modelled", "closed form", "theory, cut"},
	}.Panels(table)
	spread, err := t.spreadTable()
	if err != nil {
		return err
	}
	r.Tables = []*lab.Table{spread}
	host := func(k int) *timed.Measured { return r.Runs[table2Run(gpipe.Host, lab.Cell{K: k, M: t.Spec.HostM})] }
	if host(2) == nil {
		table.Notes = append(table.Notes, "K = 2 on real cores was not measured: the machine gave the process fewer than two.")
	} else {
		of, err := t.hostTable(host(1), host(2), r.Runs[table2Emulated(lab.Cell{K: 2, M: t.Spec.HostM})])
		if err != nil {
			return err
		}
		of.Notes = r.Notes(gpipe.Host)
		r.Tables = append(r.Tables, of)
	}
	r.Files, err = t.timelines(r.Runs)
	return err
}

// softmaxLayers is what the last layer costs, in layers.
func softmaxLayers(costs []float64) float64 { return costs[len(costs)-1] / costs[1] }

// boundNotes compares the paper's values with what a fill-drain schedule can
// reach at all: K*M/(M+K-1) stages at work on average, over the base's.
func (t *table2) boundNotes() []string {
	bound := func(c lab.Cell) float64 { return float64(c.K*c.M) / float64(c.M+c.K-1) }
	var notes []string
	for _, m := range t.Spec.M {
		all := true
		var bounds []string
		for _, k := range t.Spec.K {
			paper := t.Spec.Paper.Of(lab.Cell{K: k, M: m}).Value
			b := bound(lab.Cell{K: k, M: m}) / bound(t.Spec.Base)
			all = all && paper.Value > b
			bounds = append(bounds, fmt.Sprintf("%.2f", b))
		}
		if all {
			notes = append(notes, fmt.Sprintf("The paper's whole M = %d row lies above the bound of fill-drain with even stages, K*M/(M+K-1) over the base's: %s for K = %s. A fixed mini-batch cannot show that; the paper adjusted batch sizes to fit memory.",
				m, strings.Join(bounds, " / "), lab.JoinWith(t.Spec.K, " / ")))
		}
	}
	return notes
}

// spreadTable shows how far theory moves with conventions that the paper does
// not state.
func (t *table2) spreadTable() (*lab.Table, error) {
	last := t.Spec.M[len(t.Spec.M)-1]
	table := &lab.Table{
		ID: "table2-theory", Title: fmt.Sprintf("Table 2: theory at the paper's own scale under conventions that it does not state, M = %d", last),
		Caption: []string{fmt.Sprintf("The schedule replayed with FLOPs for times, f:r:b = 1:1:2, on the paper's network (dimension %d, vocabulary %d), relative to K = %d, M = %d under the same convention.",
			t.Spec.PaperModel.Dim, t.Spec.PaperModel.Vocab, t.Spec.Base.K, t.Spec.Base.M)},
	}
	table.Texts("convention")
	for _, k := range t.Spec.K {
		table.Numbers(fmt.Sprintf("K = %d", k))
	}
	coarse, err := train.FlopsOf(t.Spec.PaperModel)
	if err != nil {
		return nil, err
	}
	model := t.Spec.PaperModel
	model.Fine = true
	fine, err := train.FlopsOf(model)
	if err != nil {
		return nil, err
	}
	free := slices.Clone(coarse)
	free[len(free)-1] = 0
	paper := []any{"the paper"}
	for _, k := range t.Spec.K {
		paper = append(paper, t.Spec.Paper.Of(lab.Cell{K: k, M: last}).Value)
	}
	table.Add(paper...)
	for _, row := range []struct {
		name  string
		costs []float64
		late  bool
	}{
		{"cuts at layers, early recomputation", coarse, false},
		{"cuts at layers, late recomputation", coarse, true},
		{"cuts inside of layers, early recomputation", fine, false},
		{"cuts inside of layers, late recomputation", fine, true},
		{"softmax for nothing, cuts at layers, early recomputation", free, false},
	} {
		cells := []any{row.name}
		for _, k := range t.Spec.K {
			base, s := t.setup(t.Spec.Base), t.setup(lab.Cell{K: k, M: last})
			base.LateRecompute, s.LateRecompute = row.late, row.late
			v, err := timed.Against(func(s train.Setup) (float64, error) { return timed.CutStep(s, row.costs) }, base, s)
			if err != nil {
				return nil, err
			}
			cells = append(cells, lab.Fixed(v, 2))
		}
		table.Add(cells...)
	}
	return table, nil
}

// hostTable holds K = 2 on two real cores against one core, the emulation and
// the closed form.
func (t *table2) hostTable(one, two, table2Emulated *timed.Measured) (*lab.Table, error) {
	table := &lab.Table{
		ID: "table2-host", Title: fmt.Sprintf("K = 2 on two real cores, M = %d", t.Spec.HostM),
		Caption: []string{
			"The same network and conventions on host devices of one thread each, by the wall clock, in the same rounds.",
			"The closed form takes the mean f, r and b of K = 1's own tasks, halved, so it includes the bubble, but no cost of running two stages at once.",
		},
	}
	table.Texts("what")
	table.Numbers("value", "95%")
	// K = 1's tasks cut in two even stages.
	halves := &gpipe.Times{Lists: one.Times.Lists}
	half := one.Times.Stages[0]
	half.F, half.R, half.B = halvedTimes(half.F), halvedTimes(half.R), halvedTimes(half.B)
	half.Setup, half.Update = half.Setup/2, half.Update/2
	halves.Stages = []gpipe.StageTimes{half, half}
	ideal, err := halves.ClosedForm(t.conventions.Schedule, t.conventions.Checkpoint, t.Spec.Late)
	if err != nil {
		return nil, err
	}
	speedup, closed := stats.RatioOf(one.Rounds, two.Rounds), stats.Median(one.Rounds)/ideal
	both := stats.RatioOf(table2Emulated.Rounds, two.Rounds)
	again := lab.Ratio(both, false)
	again[0].Text = fmt.Sprintf("%.3f", both.Median)
	table.Add("step, K = 1, one core", lab.Median(one.Rounds, lab.Seconds))
	table.Add("step, K = 2, two cores", lab.Median(two.Rounds, lab.Seconds))
	table.Add("step, K = 2, emulated", lab.Median(table2Emulated.Rounds, lab.Seconds))
	table.Add("step, K = 2, closed form from K = 1's tasks", lab.Seconds(ideal), "")
	table.Add("step, K = 2, closed form from its own tasks", lab.Seconds(two.Closed), "")
	table.Add("speed-up of K = 2 over K = 1", lab.Ratio(speedup, false))
	table.Add("speed-up by the closed form", lab.Fixed(closed, 2), "")
	table.Add("speed-up measured / closed form", lab.Fixed(speedup.Median/closed, 3), "")
	table.Add("emulated step / real step", again)
	table.Add("work of two busy cores / of emulated ones, which run alone", lab.Fixed(floats.Sum(two.Times.Tasks())/floats.Sum(table2Emulated.Times.Tasks()), 3), "")
	return table, nil
}

func halvedTimes(xs []float64) []float64 { return floats.ScaleTo(make([]float64, len(xs)), 0.5, xs) }

// timelines are the step of a cell in the grid's middle, drawn and as a trace.
func (t *table2) timelines(runs map[string]*timed.Measured) ([]lab.File, error) {
	c := lab.Cell{K: t.Spec.K[len(t.Spec.K)/2], M: t.Spec.M[len(t.Spec.M)/2]}
	tl, err := runs[table2Emulated(c)].Times.Replay()
	if err != nil {
		return nil, err
	}
	var text, trace bytes.Buffer
	fmt.Fprintf(&text, "One step of Transformer-48, K = %d, M = %d, emulated; every kind of task at its median.\n\n", c.K, c.M)
	if err := draw.WriteText(&text, tl, 120); err != nil {
		return nil, err
	}
	if err := draw.WriteChrome(&trace, tl, nil); err != nil {
		return nil, err
	}
	var picture strings.Builder
	if err := draw.WriteSVG(&picture, draw.Drawing{Caption: fmt.Sprintf("Transformer-48, K = %d, M = %d, emulated", c.K, c.M), Timeline: tl}); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("table2-K%d-M%d", c.K, c.M)
	return []lab.File{{Name: name + ".timeline.svg", Text: picture.String()}, {Name: name + ".timeline.txt", Text: text.String()}, {Name: name + ".trace.json", Text: trace.String()}}, nil
}
