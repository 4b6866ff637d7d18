package experiments

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
)

// evenTheory is the throughput of a cell relative to the base by the closed
// form: even stages, no link, no update, f:r:b = 1:1:2.
func (t *table2) evenTheory(c cell) (float64, error) {
	base, err := evenStep(t.setup(table2Run{t.spec.Base, gpipe.Emulated}))
	if err != nil {
		return 0, err
	}
	step, err := evenStep(t.setup(table2Run{c, gpipe.Emulated}))
	return base / step, err
}

// cutTheory replays the schedule on stages cut out of layers with the given
// costs, f:r:b = 1:1:2, and gives the throughput relative to the base.
func (t *table2) cutTheory(costs []float64, c cell, late bool) (float64, error) {
	step := func(c cell) (float64, error) {
		s := t.setup(table2Run{c, gpipe.Emulated})
		s.LateRecompute = late
		return cutStep(s, costs)
	}
	base, err := step(t.spec.Base)
	if err != nil {
		return 0, err
	}
	s, err := step(c)
	return base / s, err
}

// flopsOf is what the layers of a model cost, from their shapes.
func flopsOf(m Model) ([]float64, error) {
	layers, err := m.Build()
	if err != nil {
		return nil, err
	}
	d, err := gpipe.Pipeline{Layers: layers, Loss: nn.CrossEntropy{}}.Describe(m.Input(1))
	if err != nil {
		return nil, err
	}
	return d.FLOPs(), nil
}

func (t *table2) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(t.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	cores := 1
	if log.Has(stepName(table2Run{cell{2, t.spec.HostM}, gpipe.Host}.name(), 0, 0)) {
		cores = 2
	}
	rounds := t.rounds(profile, cores)
	runs, err := rounds.all(log)
	if err != nil {
		return nil, err
	}
	main, err := t.mainTable(profile, rounds, log, runs, reference)
	if err != nil {
		return nil, err
	}
	r := &Report{Tables: []*Table{main, t.stepsTable(rounds, runs)}}
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
		host.Notes = rounds.notes(log, gpipe.Host)
		r.Tables = append(r.Tables, host)
	} else {
		main.Notes = append(main.Notes, "K = 2 on real cores was not measured: the machine gave the process fewer than two.")
	}
	bars := tableBars{
		panel: "M", group: "K", y: fmt.Sprintf("throughput relative to K = %d, M = %d", t.spec.Base.K, t.spec.Base.M),
		bars: []columnBars{{"paper", ""}, {"theory, cut", ""}, {"closed form", ""}, {"modelled", ""}, {"measured", "95%"}},
	}
	if r.Files, err = plotFiles("table2", t.spec.Title, bars.panels(main)); err != nil {
		return nil, err
	}
	drawn, err := t.timelines(runs)
	if err != nil {
		return nil, err
	}
	r.Files = append(r.Files, drawn...)
	steps, err := rounds.stepTimes(log)
	if err != nil {
		return nil, err
	}
	r.Files = append(r.Files, File{"table2.bench.txt", benchFormat(log, steps)})
	return r, nil
}

// emulated is the run of a cell on emulated devices.
func emulated(runs map[string]*measured, c cell) *measured {
	return runs[table2Run{c, gpipe.Emulated}.name()]
}

func (t *table2) mainTable(profile table2Profile, rounds *rounds, log *Log, runs map[string]*measured, reference *Log) (*Table, error) {
	costs, err := flopsOf(profile.Model)
	if err != nil {
		return nil, err
	}
	table := &Table{
		ID: "table2", Title: t.spec.Title,
		Caption: []string{
			fmt.Sprintf("The paper's 48 layers at reduced scale (dimension %d, feed-forward %d, heads %d, vocabulary %d, sequence %d: width divided by %.3g, sequence by %.3g; the softmax costs %.2f layers by FLOPs, the paper's %.2f), mini-batch %d throughout.",
				profile.Model.Dim, profile.Model.FF, profile.Model.Heads, profile.Model.Vocab, profile.Model.Seq,
				float64(t.spec.PaperModel.Dim)/float64(profile.Model.Dim), float64(t.spec.PaperModel.Seq)/float64(profile.Model.Seq), softmaxShare(costs), t.paperSoftmaxShare(), t.spec.Batch),
			fmt.Sprintf("Conventions: schedule %v, checkpoint %v, recomputation %s, cuts at whole layers by %v over %v, free links, one thread a device, %s.",
				t.schedule, t.checkpoint, earlyOrLate(t.spec.Late), t.partitioner, t.cost, t.spec.Optimizer),
			fmt.Sprintf("Measured on emulated devices: every task runs alone and is timed, a kind of task takes the median of its repeats, the schedule is replayed with these times. Median of %d rounds, each with every cell in it, ratios within a round; in brackets the 95%% interval of order statistics.", profile.Rounds),
			"Theory, even: the closed form for even stages, f:r:b = 1:1:2. Theory, cut: the schedule replayed for the stages as cut, FLOPs for times, f:r:b = 1:1:2. Closed form: the same formula as the first with the means of the measured f, r, b, setup and update.",
			t.modelled.caption(),
			"Source of the paper's values: " + t.spec.Source + ". torchgpipe has no Transformer row.",
		},
		Columns: slices.Concat(
			[]Column{{"K", false}, {"M", false}, {"paper", false}, {"theory, even", false}, {"theory, cut", false}, {"closed form", false}},
			besideColumns,
			[]Column{{"measured", false}, {"95%", false}, {"measured/paper", false}}),
	}
	var refs map[string]*measured
	if reference != nil {
		if refs, err = t.references(reference); err != nil {
			table.Notes = append(table.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		} else {
			table.Columns = append(table.Columns, Column{Name: "reference"})
		}
	}
	base := emulated(runs, t.spec.Base)
	for _, c := range t.cells() {
		paper, _ := t.paper(c)
		even, err := t.evenTheory(c)
		if err != nil {
			return nil, err
		}
		cut, err := t.cutTheory(costs, c, t.spec.Late)
		if err != nil {
			return nil, err
		}
		got := ratioOf(base.rounds, emulated(runs, c).rounds)
		interval := got.interval()
		if c == t.spec.Base {
			interval = "-"
		}
		modelled, err := t.modelled.cells(log, c)
		if err != nil {
			return nil, err
		}
		row := slices.Concat([]string{
			fmt.Sprint(c.K), fmt.Sprint(c.M), paper.Text, fmt.Sprintf("%.2f", even), fmt.Sprintf("%.2f", cut),
			fmt.Sprintf("%.2f", base.closed/emulated(runs, c).closed),
		}, modelled, []string{got.value(), interval, fmt.Sprintf("%.2f", got.median/paper.Value)})
		if refs != nil {
			row = append(row, ratioOf(emulated(refs, t.spec.Base).rounds, emulated(refs, c).rounds).value())
		}
		table.Add(row...)
	}
	table.Notes = append(table.Notes, t.boundNotes()...)
	table.Notes = append(table.Notes, rounds.notes(log, gpipe.Emulated)...)
	if refs != nil {
		table.Notes = append(table.Notes, fmt.Sprintf("Reference: %s, profile %s, %s.", reference.Session.Machine, reference.Key.Profile, reference.Session.Time))
	}
	return table, nil
}

// references reduces the runs of a reference on emulated devices.
func (t *table2) references(log *Log) (map[string]*measured, error) {
	profile, err := profileOf(t.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	return t.rounds(profile, 1).all(log)
}

// softmaxShare is what the last layer costs, in layers.
func softmaxShare(costs []float64) float64 { return costs[len(costs)-1] / costs[1] }

func (t *table2) paperSoftmaxShare() float64 {
	costs, err := flopsOf(t.spec.PaperModel)
	if err != nil {
		return math.NaN()
	}
	return softmaxShare(costs)
}

func earlyOrLate(late bool) string {
	if late {
		return "late"
	}
	return "early (one micro-batch ahead)"
}

// boundNotes compares the paper's values with what a fill-drain schedule can
// reach at all: K*M/(M+K-1) stages at work on average, over the base's.
func (t *table2) boundNotes() []string {
	bound := func(c cell) float64 { return float64(c.K*c.M) / float64(c.M+c.K-1) }
	var notes []string
	for _, m := range t.spec.M {
		all := true
		var bounds []string
		for _, k := range t.spec.K {
			paper, _ := t.paper(cell{k, m})
			b := bound(cell{k, m}) / bound(t.spec.Base)
			all = all && paper.Value > b
			bounds = append(bounds, fmt.Sprintf("%.2f", b))
		}
		if all {
			notes = append(notes, fmt.Sprintf("The paper's whole M = %d row lies above the bound of fill-drain with even stages, K*M/(M+K-1) over the base's: %s for K = %s. A fixed mini-batch cannot show that; the paper adjusted batch sizes to fit memory.",
				m, strings.Join(bounds, " / "), joinWith(t.spec.K, " / ")))
		}
	}
	return notes
}

func joinWith(xs []int, by string) string {
	var s []string
	for _, x := range xs {
		s = append(s, fmt.Sprint(x))
	}
	return strings.Join(s, by)
}

// stepsTable is where the measured steps' time goes.
func (t *table2) stepsTable(rounds *rounds, runs map[string]*measured) *Table {
	table := &Table{
		ID: "table2-steps", Title: "Table 2: where the measured steps' time goes",
		Caption: []string{"Shares of the step, averaged over devices; they add up to the whole. Every kind of task at the median of its repeats over all rounds; the 95% interval of the step is that of its rounds. Classic bubble: (K-1)/(M+K-1), which leaves recomputation out."},
		Columns: []Column{
			{"K", false}, {"M", false}, {"step", false}, {"95%", false}, {"closed form", false}, {"computation", false}, {"recompute", false}, {"bubble", false},
			{"classic bubble", false}, {"imbalance", false}, {"setup", false}, {"barrier", false}, {"update", false},
			{"largest peak", false}, {"partition", true},
		},
	}
	table.Notes = fewRoundsNote(rounds.count)
	for _, c := range t.cells() {
		m := emulated(runs, c)
		share := func(x float64) string { return FormatShare(x, m.span) }
		var peak int64
		for _, p := range m.peak {
			peak = max(peak, p)
		}
		p := m.parts
		table.Add(fmt.Sprint(c.K), fmt.Sprint(c.M), FormatSeconds(m.span), bracketed(m.rounds, FormatSeconds), FormatSeconds(m.closed),
			share(p.Computation), share(p.Recompute), share(p.Bubble), FormatShare(schedule.Bubble(c.K, c.M), 1),
			share(p.Imbalance), share(p.Setup), share(p.Barrier), share(p.Update), FormatBytes(peak), joinInts(m.partition))
	}
	return table
}

// spreadTable shows how far theory moves with conventions that the paper does
// not state.
func (t *table2) spreadTable() (*Table, error) {
	last := t.spec.M[len(t.spec.M)-1]
	table := &Table{
		ID: "table2-theory", Title: fmt.Sprintf("Table 2: theory at the paper's own scale under conventions that it does not state, M = %d", last),
		Caption: []string{fmt.Sprintf("The schedule replayed with FLOPs for times, f:r:b = 1:1:2, on the paper's network (dimension %d, vocabulary %d), relative to K = %d, M = %d under the same convention.",
			t.spec.PaperModel.Dim, t.spec.PaperModel.Vocab, t.spec.Base.K, t.spec.Base.M)},
		Columns: []Column{{"convention", true}},
	}
	for _, k := range t.spec.K {
		table.Columns = append(table.Columns, Column{Name: fmt.Sprintf("K = %d", k)})
	}
	coarse, err := flopsOf(t.spec.PaperModel)
	if err != nil {
		return nil, err
	}
	model := t.spec.PaperModel
	model.Fine = true
	fine, err := flopsOf(model)
	if err != nil {
		return nil, err
	}
	free := append([]float64(nil), coarse...)
	free[len(free)-1] = 0
	paper := []string{"the paper"}
	for _, k := range t.spec.K {
		v, _ := t.paper(cell{k, last})
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
		for _, k := range t.spec.K {
			v, err := t.cutTheory(row.costs, cell{k, last}, row.late)
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
func (t *table2) hostTable(runs map[string]*measured) (*Table, error) {
	on := func(k int, device gpipe.Kind) *measured { return runs[table2Run{cell{k, t.spec.HostM}, device}.name()] }
	one, two, emulated := on(1, gpipe.Host), on(2, gpipe.Host), on(2, gpipe.Emulated)
	table := &Table{
		ID: "table2-host", Title: fmt.Sprintf("K = 2 on two real cores, M = %d", t.spec.HostM),
		Caption: []string{
			"The same network and conventions on host devices of one thread each, by the wall clock, in the same rounds.",
			"The closed form takes the mean f, r and b of K = 1's own tasks, halved, so it holds the bubble and nothing that running two stages at once costs.",
		},
		Columns: []Column{{"what", true}, {"value", false}, {"95%", false}},
	}
	// K = 1's tasks cut in two even stages.
	halves := &gpipe.Times{Lists: one.times.Lists}
	half := one.times.Stages[0]
	half.F, half.R, half.B = halved(half.F), halved(half.R), halved(half.B)
	half.Setup, half.Update = half.Setup/2, half.Update/2
	halves.Stages = []gpipe.StageTimes{half, half}
	ideal, err := halves.ClosedForm(t.schedule, t.checkpoint, t.spec.Late)
	if err != nil {
		return nil, err
	}
	table.Add("step, K = 1, one core", FormatSeconds(median(one.rounds)), bracketed(one.rounds, FormatSeconds))
	table.Add("step, K = 2, two cores", FormatSeconds(median(two.rounds)), bracketed(two.rounds, FormatSeconds))
	table.Add("step, K = 2, emulated", FormatSeconds(median(emulated.rounds)), bracketed(emulated.rounds, FormatSeconds))
	table.Add("step, K = 2, closed form from K = 1's tasks", FormatSeconds(ideal), "")
	table.Add("step, K = 2, closed form from its own tasks", FormatSeconds(two.closed), "")
	speedup := ratioOf(one.rounds, two.rounds)
	table.Add("speed-up of K = 2 over K = 1", speedup.value(), speedup.interval())
	table.Add("speed-up by the closed form", fmt.Sprintf("%.2f", median(one.rounds)/ideal), "")
	table.Add("speed-up measured / closed form", fmt.Sprintf("%.3f", speedup.median/(median(one.rounds)/ideal)), "")
	both := ratioOf(emulated.rounds, two.rounds)
	table.Add("emulated step / real step", fmt.Sprintf("%.3f", both.median), both.interval())
	share := func(own *measured) float64 {
		var sum float64
		for i := range own.times.Stages {
			st := &own.times.Stages[i]
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
func (t *table2) timelines(runs map[string]*measured) ([]File, error) {
	c := cell{t.spec.K[len(t.spec.K)/2], t.spec.M[len(t.spec.M)/2]}
	tl, err := emulated(runs, c).times.Replay()
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
	return []File{{name + ".timeline.svg", picture.String()}, {name + ".timeline.txt", text.String()}, {name + ".trace.json", trace.String()}}, nil
}
