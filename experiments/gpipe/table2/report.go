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
	"gpipebench/experiments/stats"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/units"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// evenTheory is the throughput of a cell relative to the base by the closed
// form: even stages, no link, no update, f:r:b = 1:1:2.
func (t *Table2) evenTheory(c suite.Cell) (float64, error) {
	base, err := workload.EvenStep(t.setup(table2Run{t.Spec.Base, gpipe.Emulated}))
	if err != nil {
		return 0, err
	}
	step, err := workload.EvenStep(t.setup(table2Run{c, gpipe.Emulated}))
	return base / step, err
}

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
		Bars: []plot.ColumnBars{{Column: "paper", Interval: ""}, {Column: "theory, cut", Interval: ""}, {Column: "closed form", Interval: ""}, {Column: "modelled", Interval: ""}, {Column: "measured", Interval: "95%"}},
	}
	if r.Files, err = plot.Files("table2", t.Spec.Title, bars.Panels(main)); err != nil {
		return nil, err
	}
	drawn, err := t.timelines(runs)
	if err != nil {
		return nil, err
	}
	r.Files = append(r.Files, drawn...)
	steps, err := timed.StepTimes(log)
	if err != nil {
		return nil, err
	}
	r.Files = append(r.Files, suite.File{Name: "table2.bench.txt", Text: rounds.BenchFormat(log, steps)})
	return r, nil
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
			fmt.Sprintf("Measured on emulated devices: every task runs alone and is timed, a kind of task takes the median of its repeats, the schedule is replayed with these times. Median of %d rounds, each with every cell in it, ratios within a round; in brackets the 95%% interval of order statistics.", profile.Rounds),
			"Theory, even: the closed form for even stages, f:r:b = 1:1:2. Theory, cut: the schedule replayed for the stages as cut, FLOPs for times, f:r:b = 1:1:2. Closed form: the same formula as the first with the means of the measured f, r, b, setup and update.",
			t.Modelled.Caption(),
			"Source of the paper's values: " + t.Spec.Source + ". torchgpipe has no Transformer row.",
		},
		Columns: slices.Concat(
			[]suite.Column{{Name: "K", Left: false}, {Name: "M", Left: false}, {Name: "paper", Left: false}, {Name: "theory, even", Left: false}, {Name: "theory, cut", Left: false}, {Name: "closed form", Left: false}},
			modelled.BesideColumns,
			[]suite.Column{{Name: "measured", Left: false}, {Name: "95%", Left: false}, {Name: "measured/paper", Left: false}}),
	}
	var refs map[string]*rounds.Measured
	if reference != nil {
		if refs, err = t.references(reference); err != nil {
			table.Notes = append(table.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		} else {
			table.Columns = append(table.Columns, suite.Column{Name: "reference"})
		}
	}
	base := emulated(runs, t.Spec.Base)
	for _, c := range t.cells() {
		paper, _ := t.paper(c)
		even, err := t.evenTheory(c)
		if err != nil {
			return nil, err
		}
		cut, err := t.cutTheory(costs, c, t.Spec.Late)
		if err != nil {
			return nil, err
		}
		got := stats.RatioOf(base.Rounds, emulated(runs, c).Rounds)
		interval := got.Interval()
		if c == t.Spec.Base {
			interval = "-"
		}
		modelled, err := t.Modelled.Cells(log, c)
		if err != nil {
			return nil, err
		}
		row := slices.Concat([]string{
			fmt.Sprint(c.K), fmt.Sprint(c.M), paper.Text, fmt.Sprintf("%.2f", even), fmt.Sprintf("%.2f", cut),
			fmt.Sprintf("%.2f", base.Closed/emulated(runs, c).Closed),
		}, modelled, []string{got.Value(), interval, fmt.Sprintf("%.2f", got.Median/paper.Value)})
		if refs != nil {
			row = append(row, stats.RatioOf(emulated(refs, t.Spec.Base).Rounds, emulated(refs, c).Rounds).Value())
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

// references reduces the runs of a reference on emulated devices.
func (t *Table2) references(log *records.Log) (map[string]*rounds.Measured, error) {
	profile, err := suite.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	return t.rounds(profile, 1).All(log)
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
			paper, _ := t.paper(suite.Cell{K: k, M: m})
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
func (t *Table2) stepsTable(rounds *rounds.Rounds, runs map[string]*rounds.Measured) *suite.Table {
	table := &suite.Table{
		ID: "table2-steps", Title: "Table 2: where the measured steps' time goes",
		Caption: []string{"Shares of the step, averaged over devices; they add up to the whole. Every kind of task at the median of its repeats over all rounds; the 95% interval of the step is that of its rounds. Classic bubble: (K-1)/(M+K-1), which leaves recomputation out."},
		Columns: []suite.Column{
			{Name: "K", Left: false}, {Name: "M", Left: false}, {Name: "step", Left: false}, {Name: "95%", Left: false}, {Name: "closed form", Left: false}, {Name: "computation", Left: false}, {Name: "recompute", Left: false}, {Name: "bubble", Left: false},
			{Name: "classic bubble", Left: false}, {Name: "imbalance", Left: false}, {Name: "setup", Left: false}, {Name: "barrier", Left: false}, {Name: "update", Left: false},
			{Name: "largest peak", Left: false}, {Name: "partition", Left: true},
		},
	}
	table.Notes = suite.FewRoundsNote(rounds.Count)
	for _, c := range t.cells() {
		m := emulated(runs, c)
		share := func(x float64) string { return units.FormatShare(x, m.Span) }
		var peak int64
		for _, p := range m.Peak {
			peak = max(peak, p)
		}
		p := m.Parts
		table.Add(fmt.Sprint(c.K), fmt.Sprint(c.M), units.FormatSeconds(m.Span), suite.Bracketed(m.Rounds, units.FormatSeconds), units.FormatSeconds(m.Closed),
			share(p.Computation), share(p.Recompute), share(p.Bubble), units.FormatShare(schedule.Bubble(c.K, c.M), 1),
			share(p.Imbalance), share(p.Setup), share(p.Barrier), share(p.Update), units.FormatBytes(peak), suite.JoinInts(m.Partition))
	}
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
		Columns: []suite.Column{{Name: "convention", Left: true}},
	}
	for _, k := range t.Spec.K {
		table.Columns = append(table.Columns, suite.Column{Name: fmt.Sprintf("K = %d", k)})
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
	paper := []string{"the paper"}
	for _, k := range t.Spec.K {
		v, _ := t.paper(suite.Cell{K: k, M: last})
		paper = append(paper, v.Text)
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
		cells := []string{row.name}
		for _, k := range t.Spec.K {
			v, err := t.cutTheory(row.costs, suite.Cell{K: k, M: last}, row.late)
			if err != nil {
				return nil, err
			}
			cells = append(cells, fmt.Sprintf("%.2f", v))
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
		Columns: []suite.Column{{Name: "what", Left: true}, {Name: "value", Left: false}, {Name: "95%", Left: false}},
	}
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
	table.Add("step, K = 1, one core", units.FormatSeconds(stats.Median(one.Rounds)), suite.Bracketed(one.Rounds, units.FormatSeconds))
	table.Add("step, K = 2, two cores", units.FormatSeconds(stats.Median(two.Rounds)), suite.Bracketed(two.Rounds, units.FormatSeconds))
	table.Add("step, K = 2, emulated", units.FormatSeconds(stats.Median(emulated.Rounds)), suite.Bracketed(emulated.Rounds, units.FormatSeconds))
	table.Add("step, K = 2, closed form from K = 1's tasks", units.FormatSeconds(ideal), "")
	table.Add("step, K = 2, closed form from its own tasks", units.FormatSeconds(two.Closed), "")
	speedup := stats.RatioOf(one.Rounds, two.Rounds)
	table.Add("speed-up of K = 2 over K = 1", speedup.Value(), speedup.Interval())
	table.Add("speed-up by the closed form", fmt.Sprintf("%.2f", stats.Median(one.Rounds)/ideal), "")
	table.Add("speed-up measured / closed form", fmt.Sprintf("%.3f", speedup.Median/(stats.Median(one.Rounds)/ideal)), "")
	both := stats.RatioOf(emulated.Rounds, two.Rounds)
	table.Add("emulated step / real step", fmt.Sprintf("%.3f", both.Median), both.Interval())
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
	table.Add("work of two busy cores / of emulated ones, which run alone", fmt.Sprintf("%.3f", share(two)/share(emulated)), "")
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
