package table2

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/stats"
)

// cutTheory replays the schedule on stages cut out of layers with the given
// costs, f:r:b = 1:1:2, and gives the throughput relative to the base.
func (t *Table2) cutTheory(costs []float64, c suite.Cell, late bool) (float64, error) {
	step := func(c suite.Cell) (float64, error) {
		s := t.setup(table2Run{c, gpipe.Emulated})
		s.LateRecompute = late
		return workload.CutStep(s, costs)
	}
	base, err := step(t.Spec.Base)
	if err != nil {
		return 0, err
	}
	s, err := step(c)
	return base / s, err
}

func (t *Table2) Report(log, reference *records.Log) (*suite.Report, error) {
	profile, err := suite.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	cores := 1
	if log.Has(rounds.StepName(table2Run{suite.Cell{K: 2, M: t.Spec.HostM}, gpipe.Host}.name(), 0, 0)) {
		cores = 2
	}
	timed := t.rounds(profile, cores)
	runs, err := timed.All(log)
	if err != nil {
		return nil, err
	}
	main, err := t.mainTable(profile, timed, log, runs, reference)
	if err != nil {
		return nil, err
	}
	r := &suite.Report{Tables: []*suite.Table{main, t.stepsTable(timed, runs)}}
	spread, err := t.spreadTable()
	if err != nil {
		return nil, err
	}
	r.Tables = append(r.Tables, spread)
	if cores == 2 {
		host, err := t.hostTable(runs)
		if err != nil {
			return nil, err
		}
		host.Notes = timed.Notes(log, gpipe.Host)
		r.Tables = append(r.Tables, host)
	} else {
		main.Notes = append(main.Notes, "K = 2 on real cores was not measured: the machine gave the process fewer than two.")
	}
	bars := plot.TableBars{
		Panel: "M", Group: "K", Y: fmt.Sprintf("throughput relative to K = %d, M = %d", t.Spec.Base.K, t.Spec.Base.M),
		Bars: []string{"paper", "theory, cut", "closed form", "modelled", "measured"},
	}
	if r.Files, err = timed.Files(log, "table2", t.Spec.Title, bars.Panels(main)); err != nil {
		return nil, err
	}
	drawn, err := t.timelines(runs)
	r.Files = slices.Insert(r.Files, len(r.Files)-1, drawn...) // the benchmark comes last
	return r, err
}

// emulated is the run of a cell on emulated devices.
func emulated(runs map[string]*rounds.Measured, c suite.Cell) *rounds.Measured {
	return runs[table2Run{c, gpipe.Emulated}.name()]
}

func (t *Table2) mainTable(profile table2Profile, timed *rounds.Rounds, log *records.Log, runs map[string]*rounds.Measured, reference *records.Log) (*suite.Table, error) {
	costs, err := workload.FlopsOf(profile.Model)
	if err != nil {
		return nil, err
	}
	table := &suite.Table{
		ID: "table2", Title: t.Spec.Title,
		Caption: []string{
			fmt.Sprintf("The paper's 48 layers at reduced scale (dimension %d, feed-forward %d, heads %d, vocabulary %d, sequence %d: width divided by %.3g, sequence by %.3g; the softmax costs %.2f layers by FLOPs, the paper's %.2f), mini-batch %d throughout.",
				profile.Model.Dim, profile.Model.FF, profile.Model.Heads, profile.Model.Vocab, profile.Model.Seq,
				float64(t.Spec.PaperModel.Dim)/float64(profile.Model.Dim), float64(t.Spec.PaperModel.Seq)/float64(profile.Model.Seq), softmaxShare(costs), t.paperSoftmaxShare(), t.Spec.Batch),
			fmt.Sprintf("Conventions: schedule %v, checkpoint %v, recomputation %s, cuts at whole layers by %v over %v, free links, one thread a device, %s.",
				t.schedule, t.checkpoint, suite.EarlyOrLate(t.Spec.Late), t.partitioner, t.cost, t.Spec.Optimizer),
			rounds.EmulatedCaption(profile.Rounds, "cell"),
			rounds.TheoryCaption,
			t.Modelled.Caption(),
			"Source of the paper's values: " + t.Spec.Source + ". torchgpipe has no Transformer row.",
		},
	}
	table.Numbers("K", "M", "paper", "theory, even", "theory, cut", "closed form")
	table.Numbers(modelled.BesideColumns...)
	table.Numbers("measured", "95%", "measured/paper")
	refs := rounds.References(table, reference, t.Spec.Profiles, func(log *records.Log, p table2Profile) (map[string]*rounds.Measured, error) {
		return t.rounds(p, 1).All(log)
	}, "reference")
	base := emulated(runs, t.Spec.Base)
	for _, c := range t.Spec.Cells() {
		paper := t.Spec.Paper.Of(c).Value
		theory, err := rounds.Theory(t.setup(table2Run{t.Spec.Base, gpipe.Emulated}), t.setup(table2Run{c, gpipe.Emulated}), costs)
		if err != nil {
			return nil, err
		}
		got := stats.RatioOf(base.Rounds, emulated(runs, c).Rounds)
		modelled, err := t.Modelled.Cells(log, c)
		if err != nil {
			return nil, err
		}
		row := []any{c.K, c.M, paper, theory, suite.Fixed(base.Closed/emulated(runs, c).Closed, 2),
			modelled, suite.Ratio(got, c == t.Spec.Base), suite.Fixed(got.Median/paper.Value, 2)}
		if refs != nil {
			row = append(row, suite.Fixed(stats.RatioOf(emulated(refs, t.Spec.Base).Rounds, emulated(refs, c).Rounds).Median, 2))
		}
		table.Add(row...)
	}
	table.Notes = append(table.Notes, t.boundNotes()...)
	table.Notes = append(table.Notes, timed.Notes(log, gpipe.Emulated)...)
	if refs != nil {
		table.Notes = append(table.Notes, fmt.Sprintf("Reference: %s, profile %s, %s.", reference.Session.Machine, reference.Key.Profile, reference.Session.Time))
	}
	return table, nil
}

// softmaxShare is what the last layer costs, in layers.
func softmaxShare(costs []float64) float64 { return costs[len(costs)-1] / costs[1] }

func (t *Table2) paperSoftmaxShare() float64 {
	costs, err := workload.FlopsOf(t.Spec.PaperModel)
	if err != nil {
		return math.NaN()
	}
	return softmaxShare(costs)
}

// boundNotes compares the paper's values with what a fill-drain schedule can
// reach at all: K*M/(M+K-1) stages at work on average, over the base's.
func (t *Table2) boundNotes() []string {
	bound := func(c suite.Cell) float64 { return float64(c.K*c.M) / float64(c.M+c.K-1) }
	var notes []string
	for _, m := range t.Spec.M {
		all := true
		var bounds []string
		for _, k := range t.Spec.K {
			paper := t.Spec.Paper.Of(suite.Cell{K: k, M: m}).Value
			b := bound(suite.Cell{K: k, M: m}) / bound(t.Spec.Base)
			all = all && paper.Value > b
			bounds = append(bounds, fmt.Sprintf("%.2f", b))
		}
		if all {
			notes = append(notes, fmt.Sprintf("The paper's whole M = %d row lies above the bound of fill-drain with even stages, K*M/(M+K-1) over the base's: %s for K = %s. A fixed mini-batch cannot show that; the paper adjusted batch sizes to fit memory.",
				m, strings.Join(bounds, " / "), suite.JoinWith(t.Spec.K, " / ")))
		}
	}
	return notes
}

// stepsTable is where the measured steps' time goes.
func (t *Table2) stepsTable(timed *rounds.Rounds, runs map[string]*rounds.Measured) *suite.Table {
	table := rounds.PartsTable("table2-steps", "Table 2: where the measured steps' time goes")
	table.Notes = suite.FewRoundsNote(timed.Count)
	for _, c := range t.Spec.Cells() {
		table.Add(emulated(runs, c).Cells(t.setup(table2Run{c, gpipe.Emulated}))...)
	}
	rounds.FreeLinks(table)
	return table
}

// spreadTable shows how far theory moves with conventions that the paper does
// not state.
func (t *Table2) spreadTable() (*suite.Table, error) {
	last := t.Spec.M[len(t.Spec.M)-1]
	table := &suite.Table{
		ID: "table2-theory", Title: fmt.Sprintf("Table 2: theory at the paper's own scale under conventions that it does not state, M = %d", last),
		Caption: []string{fmt.Sprintf("The schedule replayed with FLOPs for times, f:r:b = 1:1:2, on the paper's network (dimension %d, vocabulary %d), relative to K = %d, M = %d under the same convention.",
			t.Spec.PaperModel.Dim, t.Spec.PaperModel.Vocab, t.Spec.Base.K, t.Spec.Base.M)},
	}
	table.Texts("convention")
	for _, k := range t.Spec.K {
		table.Numbers(fmt.Sprintf("K = %d", k))
	}
	coarse, err := workload.FlopsOf(t.Spec.PaperModel)
	if err != nil {
		return nil, err
	}
	model := t.Spec.PaperModel
	model.Fine = true
	fine, err := workload.FlopsOf(model)
	if err != nil {
		return nil, err
	}
	free := append([]float64(nil), coarse...)
	free[len(free)-1] = 0
	paper := []any{"the paper"}
	for _, k := range t.Spec.K {
		v := t.Spec.Paper.Of(suite.Cell{K: k, M: last}).Value
		paper = append(paper, v)
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
			v, err := t.cutTheory(row.costs, suite.Cell{K: k, M: last}, row.late)
			if err != nil {
				return nil, err
			}
			cells = append(cells, suite.Fixed(v, 2))
		}
		table.Add(cells...)
	}
	return table, nil
}

// hostTable holds K = 2 on two real cores against one core, the emulation and
// the closed form.
func (t *Table2) hostTable(runs map[string]*rounds.Measured) (*suite.Table, error) {
	on := func(k int, device gpipe.Kind) *rounds.Measured {
		return runs[table2Run{suite.Cell{K: k, M: t.Spec.HostM}, device}.name()]
	}
	one, two, emulated := on(1, gpipe.Host), on(2, gpipe.Host), on(2, gpipe.Emulated)
	table := &suite.Table{
		ID: "table2-host", Title: fmt.Sprintf("K = 2 on two real cores, M = %d", t.Spec.HostM),
		Caption: []string{
			"The same network and conventions on host devices of one thread each, by the wall clock, in the same rounds.",
			"The closed form takes the mean f, r and b of K = 1's own tasks, halved, so it holds the bubble and nothing that running two stages at once costs.",
		},
	}
	table.Texts("what")
	table.Numbers("value", "95%")
	// K = 1's tasks cut in two even stages.
	halves := &gpipe.Times{Lists: one.Times.Lists}
	half := one.Times.Stages[0]
	half.F, half.R, half.B = halved(half.F), halved(half.R), halved(half.B)
	half.Setup, half.Update = half.Setup/2, half.Update/2
	halves.Stages = []gpipe.StageTimes{half, half}
	ideal, err := halves.ClosedForm(t.schedule, t.checkpoint, t.Spec.Late)
	if err != nil {
		return nil, err
	}
	speedup, closed := stats.RatioOf(one.Rounds, two.Rounds), stats.Median(one.Rounds)/ideal
	both := stats.RatioOf(emulated.Rounds, two.Rounds)
	again := suite.Ratio(both, false)
	again[0].Text = fmt.Sprintf("%.3f", both.Median)
	table.Add("step, K = 1, one core", suite.Median(one.Rounds, suite.Seconds))
	table.Add("step, K = 2, two cores", suite.Median(two.Rounds, suite.Seconds))
	table.Add("step, K = 2, emulated", suite.Median(emulated.Rounds, suite.Seconds))
	table.Add("step, K = 2, closed form from K = 1's tasks", suite.Seconds(ideal), "")
	table.Add("step, K = 2, closed form from its own tasks", suite.Seconds(two.Closed), "")
	table.Add("speed-up of K = 2 over K = 1", suite.Ratio(speedup, false))
	table.Add("speed-up by the closed form", suite.Fixed(closed, 2), "")
	table.Add("speed-up measured / closed form", suite.Fixed(speedup.Median/closed, 3), "")
	table.Add("emulated step / real step", again)
	share := func(own *rounds.Measured) float64 {
		var sum float64
		for i := range own.Times.Stages {
			st := &own.Times.Stages[i]
			for m := range st.F {
				sum += st.F[m] + st.R[m] + st.B[m]
			}
		}
		return sum
	}
	table.Add("work of two busy cores / of emulated ones, which run alone", suite.Fixed(share(two)/share(emulated), 3), "")
	return table, nil
}

func halved(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = x / 2
	}
	return out
}

// timelines draws the step of a middling cell and gives it as a trace.
func (t *Table2) timelines(runs map[string]*rounds.Measured) ([]suite.File, error) {
	c := suite.Cell{K: t.Spec.K[len(t.Spec.K)/2], M: t.Spec.M[len(t.Spec.M)/2]}
	tl, err := emulated(runs, c).Times.Replay()
	if err != nil {
		return nil, err
	}
	var text, trace bytes.Buffer
	fmt.Fprintf(&text, "One step of Transformer-48, K = %d, M = %d, emulated; every kind of task at its median.\n\n", c.K, c.M)
	if err := timeline.WriteText(&text, tl, 120); err != nil {
		return nil, err
	}
	if err := timeline.WriteChrome(&trace, tl, nil); err != nil {
		return nil, err
	}
	var picture strings.Builder
	if err := timeline.WriteSVG(&picture, timeline.Drawing{Caption: fmt.Sprintf("Transformer-48, K = %d, M = %d, emulated", c.K, c.M), Timeline: tl}); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("table2-K%d-M%d", c.K, c.M)
	return []suite.File{{Name: name + ".timeline.svg", Text: picture.String()}, {Name: name + ".timeline.txt", Text: text.String()}, {Name: name + ".trace.json", Text: trace.String()}}, nil
}
