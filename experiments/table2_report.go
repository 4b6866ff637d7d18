package experiments

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
)

// table2Run's samples, reduced.
type table2Measured struct {
	partition []int
	peak      []int64
	rounds    []float64    // seconds of a step, one for each round
	times     *gpipe.Times // every kind of task at the median of its repeats over all rounds
	closed    float64      // closed form with the means of times over stages
	parts     timeline.Parts
	span      float64 // of a replay of times
}

// measured reads and reduces the samples of one run.
func (t *table2) measured(log *Log, run table2Run) (*table2Measured, error) {
	profile, err := profileOf(t.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	lists, err := schedule.Build(t.schedule, run.K, run.M, t.checkpoint, t.spec.Late)
	if err != nil {
		return nil, err
	}
	sizes := gpipe.MicroBatchSizes(t.spec.Batch, run.M)
	m := &table2Measured{}
	var all gpipe.Samples
	for round := range profile.Rounds {
		var samples gpipe.Samples
		var wall []float64
		for step := range profile.Steps[run.M] {
			var s table2Sample
			if err := log.Get(run.sample(round, step), &s); err != nil {
				return nil, err
			}
			samples.Add(s.times(lists))
			all.Add(s.times(lists))
			wall = append(wall, s.Seconds)
			m.partition, m.peak = s.Partition, s.Peak
		}
		seconds := median(wall)
		if run.device == gpipe.Emulated {
			tl, err := samples.Median(sizes).Replay()
			if err != nil {
				return nil, err
			}
			seconds = tl.Span()
		}
		m.rounds = append(m.rounds, seconds)
	}
	m.times = all.Median(sizes)
	if m.closed, err = m.times.ClosedForm(t.schedule, t.checkpoint, t.spec.Late); err != nil {
		return nil, err
	}
	if m.parts, err = m.times.Breakdown(); err != nil {
		return nil, err
	}
	m.span = m.parts.Step
	return m, nil
}

// ratio is a quotient of two runs' times, taken round by round.
type ratio struct {
	median, lo, hi float64
	known          bool // that there is an interval: it takes 6 rounds
}

// ratioOf summarises a/b by the median and the interval of order statistics
// that holds the true median with 95% confidence, whatever the distribution.
func ratioOf(a, b []float64) ratio {
	var qs []float64
	for i := range a {
		qs = append(qs, a[i]/b[i])
	}
	r := ratio{median: median(qs)}
	r.lo, r.hi, r.known = interval(qs, 0.95)
	return r
}

func (r ratio) value() string { return fmt.Sprintf("%.2f", r.median) }

func (r ratio) interval() string {
	if !r.known {
		return "-"
	}
	return fmt.Sprintf("[%.2f, %.2f]", r.lo, r.hi)
}

// evenTheory is the throughput of a cell relative to the base by the closed
// form: even stages, no link, no update, f:r:b = 1:1:2.
func (t *table2) evenTheory(c cell) (float64, error) {
	step := func(c cell) (float64, error) {
		f := 1 / float64(c.K*c.M)
		return schedule.StepTime(t.schedule, t.checkpoint, t.spec.Late, c.K, c.M, f, f, 2*f)
	}
	base, err := step(t.spec.Base)
	if err != nil {
		return 0, err
	}
	s, err := step(c)
	return base / s, err
}

// cutTheory replays the schedule on stages cut out of layers with the given
// costs, f:r:b = 1:1:2, and gives the throughput relative to the base.
func (t *table2) cutTheory(costs []float64, c cell, late bool) (float64, error) {
	step := func(c cell) (float64, error) {
		cut, err := partition.Split(t.partitioner, costs, c.K)
		if err != nil {
			return 0, err
		}
		stages, _ := stageCosts(costs, cut.Sizes)
		lists, err := schedule.Build(t.schedule, c.K, c.M, t.checkpoint, late)
		if err != nil {
			return 0, err
		}
		tl, err := timeline.Replay(lists, timeline.Costs{Task: func(stage int, task schedule.Task) float64 {
			f := stages[stage] / float64(c.M)
			if task.Kind == schedule.Backward {
				return 2 * f
			}
			return f
		}})
		if err != nil {
			return 0, err
		}
		return tl.Span(), nil
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
	cells := map[cell]*table2Measured{}
	for _, c := range t.cells() {
		if cells[c], err = t.measured(log, table2Run{c, gpipe.Emulated}); err != nil {
			return nil, err
		}
	}
	main, err := t.mainTable(profile, log, cells, reference)
	if err != nil {
		return nil, err
	}
	r := &Report{Tables: []*Table{main, t.stepsTable(cells)}}
	spread, err := t.spreadTable()
	if err != nil {
		return nil, err
	}
	r.Tables = append(r.Tables, spread)
	if log.Has(table2Run{cell{2, t.spec.HostM}, gpipe.Host}.sample(0, 0)) {
		host, err := t.hostTable(profile, log, cells)
		if err != nil {
			return nil, err
		}
		r.Tables = append(r.Tables, host)
	} else {
		main.Notes = append(main.Notes, "K = 2 on real cores was not measured: the machine gave the process fewer than two.")
	}
	if r.Files, err = t.timelines(cells); err != nil {
		return nil, err
	}
	steps, err := t.stepTimes(profile, log)
	if err != nil {
		return nil, err
	}
	r.Files = append(r.Files, File{"table2.bench.txt", benchFormat(log, steps)})
	return r, nil
}

// crowdNotes says in how many steps on devices of a kind other processes took
// cores that were needed.
func (t *table2) crowdNotes(profile table2Profile, log *Log, device gpipe.Kind) []string {
	cores := min(log.Session.Machine.Cores, log.Session.Machine.GOMAXPROCS)
	steps, disturbed := 0, 0
	for _, run := range t.runs(cores) {
		if run.device != device {
			continue
		}
		for round := range profile.Rounds {
			for step := range profile.Steps[run.M] {
				var s table2Sample
				if log.Get(run.sample(round, step), &s) != nil {
					continue
				}
				steps++
				if crowded(s.Others, run.cores(), cores) {
					disturbed++
				}
			}
		}
	}
	if disturbed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The machine was busy: in %d of these %d steps other processes took cores that the step needed. A median bears some of that, not half.", disturbed, steps)}
}

// stepTimes lists every sample's step.
func (t *table2) stepTimes(profile table2Profile, log *Log) ([]stepTime, error) {
	var all []stepTime
	for _, run := range t.runs(2) {
		for round := range profile.Rounds {
			for step := range profile.Steps[run.M] {
				if !log.Has(run.sample(round, step)) && run.device == gpipe.Host {
					continue // on one core
				}
				var s table2Sample
				if err := log.Get(run.sample(round, step), &s); err != nil {
					return nil, err
				}
				all = append(all, stepTime{fmt.Sprintf("device=%v/K=%d/M=%d", run.device, run.K, run.M), s.Seconds})
			}
		}
	}
	return all, nil
}

func (t *table2) mainTable(profile table2Profile, log *Log, cells map[cell]*table2Measured, reference *Log) (*Table, error) {
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
			"Source of the paper's values: " + t.spec.Source + ". torchgpipe has no Transformer row.",
		},
		Columns: []Column{
			{"K", false}, {"M", false}, {"paper", false}, {"theory, even", false}, {"theory, cut", false}, {"closed form", false},
			{"measured", false}, {"95%", false}, {"measured/paper", false},
		},
	}
	var refs map[cell]*table2Measured
	if reference != nil {
		if refs, err = t.referenceCells(reference); err != nil {
			table.Notes = append(table.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		} else {
			table.Columns = append(table.Columns, Column{Name: "reference"})
		}
	}
	base := cells[t.spec.Base]
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
		got := ratioOf(base.rounds, cells[c].rounds)
		interval := got.interval()
		if c == t.spec.Base {
			interval = "-"
		}
		row := []string{
			fmt.Sprint(c.K), fmt.Sprint(c.M), paper.Text, fmt.Sprintf("%.2f", even), fmt.Sprintf("%.2f", cut),
			fmt.Sprintf("%.2f", base.closed/cells[c].closed), got.value(), interval, fmt.Sprintf("%.2f", got.median/paper.Value),
		}
		if refs != nil {
			row = append(row, ratioOf(refs[t.spec.Base].rounds, refs[c].rounds).value())
		}
		table.Add(row...)
	}
	table.Notes = append(table.Notes, t.boundNotes()...)
	table.Notes = append(table.Notes, t.crowdNotes(profile, log, gpipe.Emulated)...)
	if profile.Rounds < 6 {
		table.Notes = append(table.Notes, fmt.Sprintf("%d rounds are too few for a 95%% interval: it takes 6.", profile.Rounds))
	}
	if refs != nil {
		table.Notes = append(table.Notes, fmt.Sprintf("Reference: %s, profile %s, %s.", reference.Session.Machine, reference.Key.Profile, reference.Session.Time))
	}
	return table, nil
}

func (t *table2) referenceCells(log *Log) (map[cell]*table2Measured, error) {
	refs := map[cell]*table2Measured{}
	for _, c := range t.cells() {
		m, err := t.measured(log, table2Run{c, gpipe.Emulated})
		if err != nil {
			return nil, err
		}
		refs[c] = m
	}
	return refs, nil
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
func (t *table2) stepsTable(cells map[cell]*table2Measured) *Table {
	table := &Table{
		ID: "table2-steps", Title: "Table 2: where the measured steps' time goes",
		Caption: []string{"Shares of the step, averaged over devices; they add up to the whole. Every kind of task at the median of its repeats over all rounds. Classic bubble: (K-1)/(M+K-1), which leaves recomputation out."},
		Columns: []Column{
			{"K", false}, {"M", false}, {"step", false}, {"closed form", false}, {"computation", false}, {"recompute", false}, {"bubble", false},
			{"classic bubble", false}, {"imbalance", false}, {"setup", false}, {"barrier", false}, {"update", false},
			{"largest peak", false}, {"partition", true},
		},
	}
	for _, c := range t.cells() {
		m := cells[c]
		share := func(x float64) string { return FormatShare(x, m.span) }
		var peak int64
		for _, p := range m.peak {
			peak = max(peak, p)
		}
		p := m.parts
		table.Add(fmt.Sprint(c.K), fmt.Sprint(c.M), FormatSeconds(m.span), FormatSeconds(m.closed),
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
func (t *table2) hostTable(profile table2Profile, log *Log, cells map[cell]*table2Measured) (*Table, error) {
	one, err := t.measured(log, table2Run{cell{1, t.spec.HostM}, gpipe.Host})
	if err != nil {
		return nil, err
	}
	two, err := t.measured(log, table2Run{cell{2, t.spec.HostM}, gpipe.Host})
	if err != nil {
		return nil, err
	}
	emulated := cells[cell{2, t.spec.HostM}]
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
	table.Add("step, K = 1, one core", FormatSeconds(median(one.rounds)), "")
	table.Add("step, K = 2, two cores", FormatSeconds(median(two.rounds)), "")
	table.Add("step, K = 2, emulated", FormatSeconds(median(emulated.rounds)), "")
	table.Add("step, K = 2, closed form from K = 1's tasks", FormatSeconds(ideal), "")
	table.Add("step, K = 2, closed form from its own tasks", FormatSeconds(two.closed), "")
	speedup := ratioOf(one.rounds, two.rounds)
	table.Add("speed-up of K = 2 over K = 1", speedup.value(), speedup.interval())
	table.Add("speed-up by the closed form", fmt.Sprintf("%.2f", median(one.rounds)/ideal), "")
	table.Add("speed-up measured / closed form", fmt.Sprintf("%.3f", speedup.median/(median(one.rounds)/ideal)), "")
	both := ratioOf(emulated.rounds, two.rounds)
	table.Add("emulated step / real step", fmt.Sprintf("%.3f", both.median), both.interval())
	table.Notes = t.crowdNotes(profile, log, gpipe.Host)
	share := func(own *table2Measured) float64 {
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
func (t *table2) timelines(cells map[cell]*table2Measured) ([]File, error) {
	c := cell{t.spec.K[len(t.spec.K)/2], t.spec.M[len(t.spec.M)/2]}
	tl, err := cells[c].times.Replay()
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
	name := fmt.Sprintf("table2-K%d-M%d", c.K, c.M)
	return []File{{name + ".timeline.txt", text.String()}, {name + ".trace.json", trace.String()}}, nil
}
