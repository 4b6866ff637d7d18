package table1

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/internal/units"
)

// table1Results is everything that a log has for a profile.
type table1Results struct {
	profile  table1Profile
	modelled [][]modelledColumn // by network and column
	measured [][]measuredWay    // by network and way
}

func (t *Table1) results(log *records.Log) (*table1Results, error) {
	profile, err := suite.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	r := &table1Results{profile: profile}
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		modelled := make([]modelledColumn, len(n.Columns))
		for j := range n.Columns {
			if err := log.Get(n.sample(&n.Columns[j]), &modelled[j]); err != nil {
				return nil, err
			}
			if _, ok := modelled[j].Largest[t.convention().String()]; !ok {
				return nil, log.Strange(n.sample(&n.Columns[j]), fmt.Errorf("no largest network of %v", t.convention()))
			}
		}
		measured := make([]measuredWay, len(t.Spec.Measured))
		for j, w := range t.Spec.Measured {
			if err := log.Get(table1Name("measured", n.Name, w.Name), &measured[j]); err != nil {
				return nil, err
			}
		}
		r.modelled, r.measured = append(r.modelled, modelled), append(r.measured, measured)
	}
	return r, nil
}

func (t *Table1) Report(log, reference *records.Log) (*suite.Report, error) {
	r, err := t.results(log)
	if err != nil {
		return nil, err
	}
	var ref *table1Results
	var refErr error
	if reference != nil {
		ref, refErr = t.results(reference)
	}
	main := t.mainTable(r, ref)
	switch {
	case refErr != nil:
		main.Notes = append(main.Notes, fmt.Sprintf("The reference is not shown: %v.", refErr))
	case ref != nil:
		main.Notes = append(main.Notes, suite.ReferenceNote(reference))
	}
	report := &suite.Report{Tables: []*suite.Table{main, t.growthTable(r), t.memoryTable(r), t.fitsTable(r), t.conventionsTable(r, false), t.conventionsTable(r, true)}}
	for i := range t.Spec.Networks {
		activations, err := t.activationsTable(r, i)
		if err != nil {
			return nil, err
		}
		report.Tables = append(report.Tables, activations)
	}
	report.Tables = append(report.Tables, t.bordersTable(r))
	if report.Files, err = plot.Files("table1", t.Spec.Title, t.panels(r)); err != nil {
		return nil, err
	}
	var wrong []string
	for i, ways := range r.measured {
		for j := range ways {
			if err := ways[j].judge(); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s, %s, %s: %v", t.ID(), t.Spec.Networks[i].Name, t.Spec.Measured[j].Name, err))
			}
		}
	}
	if len(wrong) > 0 {
		report.Verdict = fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return report, nil
}

// table1Row is a way's place in a network's results: an index, or -1.
type table1Row struct {
	way
	printed, measured int
}

// rows are the ways of a network, those that are only measured among the
// others, by K.
func (t *Table1) rows(n *table1Network) []table1Row {
	var rows []table1Row
	for i, c := range n.Columns {
		rows = append(rows, table1Row{c.way, i, -1})
	}
	for i, w := range t.Spec.Measured {
		at := slices.IndexFunc(rows, func(r table1Row) bool { return r.way == w })
		if at < 0 {
			at = len(rows)
			rows = append(rows, table1Row{w, -1, i})
		}
		rows[at].measured = i
	}
	slices.SortStableFunc(rows, func(a, b table1Row) int { return cmp.Compare(a.K, b.K) })
	return rows
}

func (t *Table1) convention() counting { return t.Spec.Conventions[0] }

func (t *Table1) defaultOf(c *modelledColumn) largest { return c.Largest[t.convention().String()] }

func (t *Table1) mainTable(r, ref *table1Results) *suite.Table {
	table := &suite.Table{
		ID: "table1", Title: t.Spec.Title,
		Caption: []string{
			"The largest network that K accelerators hold. Naive-1: in one piece, M = 1, every activation of the mini-batch kept. Pipeline-K: GPipe over K accelerators, everything recomputed; M is the smallest power of two with which the network fits, whole layers are cut by " + t.Spec.Partitioner + " over FLOPs.",
			fmt.Sprintf("Modelled: the paper's networks on its accelerators, planned from shapes, %s; %s.", t.modelledCaption(), conventionCaption(t.convention())),
			"Measured: smaller networks on devices of this host whose memory is a mapping of exactly the capacity (gradients and all) with a page behind it that cannot be touched; one training step of each, see table1-borders.",
			"Source of the paper's values: " + t.Spec.Source + ". torchgpipe trained the same networks: " + t.Spec.Torchgpipe + ".",
		},
	}
	table.Texts("network", "way")
	table.Numbers("paper", "paper: parameters", "torchgpipe", "modelled", "modelled: parameters", "modelled: M", "measured", "measured: parameters", "measured: M")
	if ref != nil {
		table.Numbers("measured, reference")
	}
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		for _, row := range t.rows(n) {
			none := []any{"-", "-", "-"}
			printed, modelled, measured, beside := none, none, none, suite.Absent
			if row.printed >= 0 {
				column, c := &n.Columns[row.printed], &r.modelled[i][row.printed]
				l := t.defaultOf(c)
				printed = []any{column.candidate.value(), millions(c.Params), column.Torchgpipe.largest()}
				modelled = largestCells(l.Candidate, l.Params, l.Memory.M)
			}
			if row.measured >= 0 {
				m := &r.measured[i][row.measured]
				measured = largestCells(m.Candidate, m.Params, m.M)
			}
			cells := []any{n.Name, row.Name, printed, modelled, measured}
			if ref != nil {
				if row.measured >= 0 {
					beside = ref.measured[i][row.measured].Candidate.value()
				}
				cells = append(cells, beside)
			}
			table.Add(cells...)
		}
		m := r.profile.Networks[i]
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %s, mini-batches of %d, %s a device.", n.Name, gridText(m.Model, m.Grid), m.Batch, units.FormatBytes(int64(m.Capacity))))
	}
	table.Notes = append(table.Notes, t.footnotes(r)...)
	return table
}

// largestCells are the network that a search has found, its parameters and M.
func largestCells(c candidate, params int64, m int) []any {
	if c.none() {
		return []any{c.value(), "-", "-"}
	}
	return []any{c.value(), millions(params), m}
}

func (t *Table1) modelledCaption() string {
	var parts []string
	for _, n := range t.Spec.Networks {
		parts = append(parts, fmt.Sprintf("%s on %s with mini-batches of %d", n.Name, n.Accelerator, n.Batch))
	}
	return strings.Join(parts, ", ")
}

func conventionCaption(c counting) string {
	accounting := "parameters with the optimiser's state (12 bytes) and activations counted, gradients not, as in the paper"
	if c.how.Accounting == gpipe.FullAccounting {
		accounting = "everything counted, gradients too"
	}
	scores := "attention's probabilities kept"
	if !c.Scores {
		scores = "attention's probabilities computed again"
	}
	return fmt.Sprintf("activations in %s, %s, %s", c.DType, accounting, scores)
}

func gridText(m workload.Model, g grid) string {
	if m.Images() {
		return fmt.Sprintf("%s at %dx%d pixels, %d classes, L of %s, D in steps of %d", m.Name, m.Image, m.Image, m.Classes, suite.JoinInts(g.Layers), g.Filters.Step)
	}
	return fmt.Sprintf("%s of width %d, feed-forward %d, %d heads, vocabulary %d, %d tokens, layers one by one", m.Name, m.Dim, m.FF, m.Heads, m.Vocab, m.Seq)
}

func millions(n int64) suite.Value {
	format, unit := "%.3gM", 1e6
	switch v := float64(n); {
	case v >= 1e9:
		format, unit = "%.3gB", 1e9
	case v >= 1e8:
		format = "%.0fM"
	}
	return suite.Whole(n, fmt.Sprintf(format, float64(n)/unit))
}

// footnotes are what is odd about the printed table, computed from it.
func (t *Table1) footnotes(r *table1Results) []string {
	var notes []string
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		column := func(name string) int {
			return slices.IndexFunc(n.Columns, func(c table1Column) bool { return c.Name == name })
		}
		from, to := column(n.Claim.Columns[0]), column(n.Claim.Columns[1])
		notes = append(notes, fmt.Sprintf("%s: the paper says that %s holds %g times %s's parameters. Its printed figures (%s, %s) give %.1f, the networks themselves %.1f.",
			n.Name, n.Claim.Columns[1], n.Claim.Times, n.Claim.Columns[0], n.Columns[to].Params.Text, n.Columns[from].Params.Text,
			n.Columns[to].Params.Value/n.Columns[from].Params.Value, float64(r.modelled[i][to].Params)/float64(r.modelled[i][from].Params)))
		notes = append(notes, t.amountNotes(r, i)...)
		if first := n.Columns[0].candidate; n.Grid.Filters.Step > 0 && first.Filters%n.Grid.Filters.Step != 0 {
			notes = append(notes, fmt.Sprintf("%s: the paper's %v is on no grid in steps of %d.", n.Name, first, n.Grid.Filters.Step))
		}
	}
	return notes
}

// amountNotes are those on a network's printed amounts of memory.
func (t *Table1) amountNotes(r *table1Results, network int) (notes []string) {
	n := &t.Spec.Networks[network]
	var off []string
	for j := range n.Columns {
		c := &n.Columns[j]
		bytes := 12 * r.modelled[network][j].Params
		if c.Swapped {
			notes = append(notes, fmt.Sprintf("%s, %s: printed are %s for parameters and %s for activations; 12 bytes a parameter are %s %v, so the two are interchanged in print, and are taken as meant here.",
				n.Name, c.Name, c.ParamMemory.Text, c.Activations.Text, n.Unit.of(bytes), n.Unit))
		}
		got, _ := c.memory()
		if ratio := got.Value * float64(n.Unit) / float64(bytes); math.Abs(ratio-1) > 0.05 {
			off = append(off, fmt.Sprintf("%s %s for %s", c.Name, got.Text, n.Unit.of(bytes)))
		}
	}
	other := amountUnit(1 << 30)
	if n.Unit == other {
		other = 1e9
	}
	middle := &n.Columns[1]
	bytes := 12 * r.modelled[network][1].Params
	unit := fmt.Sprintf("%s: the paper's amounts of memory are in %v: 12 bytes a parameter of %s are %s %v or %s %v, printed is %s.",
		n.Name, n.Unit, middle.Name, n.Unit.of(bytes), n.Unit, other.of(bytes), other, middle.ParamMemory.Text)
	if len(off) > 0 {
		unit += " More than 5% off: " + strings.Join(off, "; ") + "."
	}
	return append(notes, unit, t.naiveNote(n, &n.Columns[0], &r.modelled[network][0]))
}

// naiveNote says with which mini-batch the paper's network could be trained
// naively.
func (t *Table1) naiveNote(n *table1Network, c *table1Column, m *modelledColumn) string {
	var parts []string
	for _, conv := range t.Spec.Conventions {
		if l, ok := m.Largest[conv.String()]; ok {
			parts = append(parts, fmt.Sprintf("%d (%v)", l.PrintedMicro, conv))
		}
	}
	_, act := c.memory()
	whole := t.defaultOf(m).PrintedMemory
	text := fmt.Sprintf("%s: with every activation kept, %v takes %s %v for a mini-batch of %d (%v; printed is %s).",
		n.Name, c.candidate, n.Unit.of(whole.activations()), n.Unit, n.Batch, t.convention(), act.Text)
	if m.Convolved > 0 {
		text += fmt.Sprintf(" The outputs of its convolutions alone take %s.", n.Unit.of(m.Convolved*t.convention().how.DType.Bytes()*int64(n.Batch)))
	}
	return text + " The largest mini-batch with which it fits: " + strings.Join(parts, ", ") + "."
}

func times(a, b int64) suite.Value {
	if a == 0 || b == 0 {
		return suite.Absent
	}
	return suite.Fixed(float64(a)/float64(b), 1)
}

// growth is parameters relative to the first and to the second way.
func (t *Table1) growthTable(r *table1Results) *suite.Table {
	table := &suite.Table{
		ID: "table1-growth", Title: "Table 1: by how much networks may grow",
		Caption: []string{"Parameters of the largest network that fits, relative to Naive-1's and to Pipeline-1's. Paper: of its networks themselves. A coarse grid makes growth coarse: the first network of Naive-1 most of all."},
	}
	table.Texts("network", "way")
	table.Numbers("paper / Naive-1", "modelled / Naive-1", "measured / Naive-1", "paper / Pipeline-1", "modelled / Pipeline-1", "measured / Pipeline-1")
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		rows := t.rows(n)
		paper, modelled, measured := t.sizes(r, i, rows)
		for j, row := range rows {
			cells := []any{n.Name, row.Name}
			for _, base := range []int{0, 1} {
				for _, sizes := range [][]int64{paper, modelled, measured} {
					cells = append(cells, times(sizes[j], sizes[base]))
				}
			}
			table.Add(cells...)
		}
	}
	return table
}

// sizes are a network's parameters by row, 0 where there are none.
func (t *Table1) sizes(r *table1Results, network int, rows []table1Row) (paper, modelled, measured []int64) {
	for _, row := range rows {
		var p, mo, me int64
		if row.printed >= 0 {
			c := &r.modelled[network][row.printed]
			p, mo = c.Params, t.defaultOf(c).Params
		}
		if row.measured >= 0 {
			me = r.measured[network][row.measured].Params
		}
		paper, modelled, measured = append(paper, p), append(modelled, mo), append(measured, me)
	}
	return paper, modelled, measured
}

// panels draw growth over K.
func (t *Table1) panels(r *table1Results) []plot.Axes {
	var out []plot.Axes
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		rows := t.rows(n)
		paper, modelled, measured := t.sizes(r, i, rows)
		held := make([]int64, len(rows))
		for j, row := range rows {
			if row.printed >= 0 {
				held[j] = r.modelled[i][row.printed].Held[t.convention().String()].Params
			}
		}
		p := plot.LinePanel{Title: n.Name, X: "accelerators K", Y: "parameters, Pipeline-1 = 1", Logarithmic: true, Doubling: true}
		for _, s := range []struct {
			name  string
			sizes []int64
		}{{"paper", paper}, {"modelled", modelled}, {"modelled, micro-batch held", held}, {"measured", measured}} {
			var line []plot.Point
			for j, row := range rows {
				if s.sizes[j] > 0 && s.sizes[1] > 0 && !row.Naive {
					line = append(line, plot.Point{X: float64(row.K), Y: float64(s.sizes[j]) / float64(s.sizes[1])})
				}
			}
			p.Series = append(p.Series, plot.Series{Name: s.name, Lines: [][]plot.Point{line}})
		}
		out = append(out, p)
	}
	return out
}

// memoryTable is the paper's networks themselves.
func (t *Table1) memoryTable(r *table1Results) *suite.Table {
	table := &suite.Table{
		ID: "table1-memory", Title: "Table 1: memory of the paper's networks",
		Caption: []string{
			"Parameters and, summed over the accelerators, memory of parameters (12 bytes each) and peak memory of activations, in the paper's unit. Ours: " + conventionCaption(t.convention()) + "; activations are boundary stash, residuals and workspace with the largest micro-batch with which the network fits (M beside them), or, in brackets, with the smallest, if it does not fit.",
			"Source of the paper's values: " + t.Spec.Source + ". torchgpipe: " + t.Spec.Torchgpipe + ".",
		},
	}
	table.Texts("network", "way")
	table.Numbers("L, D")
	table.Texts("unit")
	table.Numbers("parameters", "paper: parameters", "torchgpipe: parameters", "12 bytes each", "paper: parameters' memory", "torchgpipe: parameters' memory",
		"activations", "M", "paper: activations", "torchgpipe: activations")
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		for j := range n.Columns {
			c, m := &n.Columns[j], &r.modelled[i][j]
			l := t.defaultOf(m)
			activations := n.Unit.of(l.PrintedMemory.activations())
			if l.PrintedMicro == 0 || c.Naive && l.PrintedMicro < n.Batch {
				activations = suite.Joined("(%v)", activations)
			}
			other := otherFigures{"-", "-", "-"}
			if c.Torchgpipe != nil {
				other = *c.Torchgpipe
			}
			printedParams, printedActivations := c.memory()
			table.Add(n.Name, c.Name, c.candidate.value(), n.Unit, commas(m.Params), c.Params.cell(), suite.Figure(other.Params),
				n.Unit.of(12*m.Params), printedParams.cell(), suite.Figure(other.ParamMemory),
				activations, l.PrintedMemory.M, printedActivations.cell(), suite.Figure(other.Activations))
		}
		table.Notes = append(table.Notes, t.amountNotes(r, i)...)
	}
	return table
}

// fitsTable tells under which conventions the paper's networks fit, as the paper
// found.
func (t *Table1) fitsTable(r *table1Results) *suite.Table {
	table := &suite.Table{
		ID: "table1-fits", Title: "Table 1: which conventions let the paper's networks fit",
		Caption: []string{"The smallest M with which every accelerator holds its part of the paper's network, by convention (see table1-conventions), and the peak of the fullest; where none does, what that takes with the smallest micro-batch. Naive-1, where the mini-batch does not fit: how many examples would."},
	}
	table.Texts("network", "way")
	table.Numbers("L, D", "capacity")
	conventions := t.Spec.Conventions[:r.profile.Conventions]
	fit := make([]int, len(conventions))
	cellsOf := make([]int, len(conventions))
	for _, c := range conventions {
		table.Numbers(c.String())
	}
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		for j := range n.Columns {
			c := &n.Columns[j]
			cells := []any{n.Name, c.Name, c.candidate.value(), suite.Bytes(r.modelled[i][j].Capacity)}
			for k, conv := range conventions {
				l, ok := r.modelled[i][j].Largest[conv.String()]
				if !ok {
					cells = append(cells, "-")
					continue
				}
				cellsOf[k]++
				peak := suite.Bytes(l.PrintedMemory.Peak[conv.Accounting])
				switch {
				case c.Naive && l.PrintedMicro < n.Batch:
					cells = append(cells, suite.Joined("no: %v examples", l.PrintedMicro))
				case l.PrintedMicro == 0:
					cells = append(cells, suite.Joined("no: %v", peak))
				default:
					fit[k]++
					cells = append(cells, suite.Joined("M = %v: %v", l.PrintedMemory.M, peak))
				}
			}
			table.Add(cells...)
		}
	}
	var parts []string
	for k, c := range conventions {
		parts = append(parts, fmt.Sprintf("%d of %d (%v)", fit[k], cellsOf[k], c))
	}
	table.Notes = append(table.Notes, "The paper's networks that fit: "+strings.Join(parts, ", ")+".")
	for i := range t.Spec.Networks {
		table.Notes = append(table.Notes, t.smallestNote(r, i))
	}
	return table
}

// smallestNote is what the fullest device of a network's last column takes with
// the smallest micro-batch, by convention.
func (t *Table1) smallestNote(r *table1Results, network int) string {
	n := &t.Spec.Networks[network]
	last := len(n.Columns) - 1
	c, micro := &r.modelled[network][last], slices.Min(n.MicroBatches)
	var parts []string
	for _, conv := range t.Spec.Conventions[:r.profile.Conventions] {
		if n.Model.Images() && !conv.Scores {
			continue
		}
		m := c.Memory[memoryName(gpipe.Modelling{DType: conv.how.DType, KeepScores: conv.how.KeepScores}, micro)]
		peak := m.Peak[conv.Accounting]
		part := fmt.Sprintf("%s (%v)", units.FormatBytes(peak), conv)
		if peak > c.Capacity {
			part += ", which does not fit"
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("%s, %s at M = %d: of %s the fullest device takes %s.", n.Name, n.Columns[last].Name, n.Batch/micro, units.FormatBytes(c.Capacity), strings.Join(parts, ", "))
}

// commas is a number in groups of three digits.
func commas(n int64) suite.Value {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return suite.Whole(n, s)
}

// conventionsTable is what fits by convention, with micro-batches as small as
// they need be or of a size that is held.
func (t *Table1) conventionsTable(r *table1Results, held bool) *suite.Table {
	table := &suite.Table{
		ID: "table1-conventions", Title: "Table 1: the largest network that fits, by convention",
		Caption: []string{
			"As the modelled column of table1, with memory counted in other ways: dtype of activations; paper: gradients (4 bytes a parameter) are not counted, full: they are; no scores: attention computes its probabilities again. After the network: M.",
		},
	}
	table.Texts("network", "way")
	table.Numbers("paper")
	if held {
		var sizes []string
		for _, n := range t.Spec.Networks {
			sizes = append(sizes, fmt.Sprintf("%d examples for %s", n.Held, n.Name))
		}
		table.ID, table.Title = "table1-held", "Table 1: the largest network that fits with the micro-batch held, by convention"
		table.Caption = append(table.Caption, "Here micro-batches are not made smaller than those with which the activations come nearest to the paper's: "+strings.Join(sizes, ", ")+". These sizes were read off table1-activations, so what comes out is a fit and no prediction.")
	}
	conventions := t.Spec.Conventions[:r.profile.Conventions]
	found := make([]int, len(conventions))
	cellsOf := make([]int, len(conventions))
	for _, c := range conventions {
		table.Numbers(c.String())
	}
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		for j := range n.Columns {
			c := &r.modelled[i][j]
			cells := []any{n.Name, n.Columns[j].Name, n.Columns[j].candidate.value()}
			for k, conv := range conventions {
				l, ok := c.Largest[conv.String()]
				if held {
					l, ok = c.Held[conv.String()]
				}
				if ok {
					cellsOf[k]++
				}
				if l.Candidate == n.Columns[j].candidate {
					found[k]++
				}
				switch {
				case !ok:
					cells = append(cells, "-")
				case l.Candidate.none():
					cells = append(cells, "none")
				default:
					cells = append(cells, suite.Joined("%v, %v", l.Candidate.value(), l.Memory.M))
				}
			}
			table.Add(cells...)
		}
	}
	var parts []string
	for k, c := range conventions {
		parts = append(parts, fmt.Sprintf("%d of %d (%v)", found[k], cellsOf[k], c))
	}
	table.Notes = append(table.Notes, "The network found is the paper's: "+strings.Join(parts, ", ")+".")
	return table
}

// activationsTable is the ablation of a network's activation memory.
func (t *Table1) activationsTable(r *table1Results, network int) (*suite.Table, error) {
	n := &t.Spec.Networks[network]
	table := &suite.Table{
		ID: "table1-activations-" + slug(n.Name), Title: "Table 1: activation memory of the paper's networks by assumption, " + n.Name,
		Caption: []string{
			fmt.Sprintf("Peak activation memory summed over the accelerators, in %v: boundary stash, residuals and workspace. The error is the mean of |ours/paper - 1|, over the pipelines and, in the columns to the right, with Naive-1 too (which has no micro-batches) and with the workspace left out. The nearest to the pipelines comes first.", n.Unit),
		},
	}
	table.Texts("activations")
	table.Numbers("micro-batch")
	if n.Model.Images() {
		table.Caption = append(table.Caption, "Convolutions: of the residuals, convolutions' outputs only, and no workspace. Batch norms, activations, sums and pools of these are then computed again in the backward pass; a compiler may do so where memory runs short.")
	}
	cells := []any{"paper", "-"}
	var paper []float64
	for j := range n.Columns {
		_, a := n.Columns[j].memory()
		paper = append(paper, a.Value*float64(n.Unit))
		table.Numbers(n.Columns[j].Name)
		cells = append(cells, suite.Fixed(a.Value, 2))
	}
	table.Numbers("error", "with Naive-1", "no workspace")
	table.Add(cells, "-", "-", "-")
	if other := n.torchgpipeRow(); other != nil {
		table.Add(other, "-", "-", "-")
	}
	type assumption struct {
		cells []any
		error float64
	}
	var all []assumption
	add := func(name string, micro int, ours, bare []float64) {
		a := assumption{[]any{name, micro}, meanError(ours[1:], paper[1:])}
		for _, bytes := range ours {
			a.cells = append(a.cells, n.Unit.of(int64(bytes)))
		}
		a.cells = append(a.cells, suite.Percent(a.error, 0), suite.Percent(meanError(ours, paper), 0), suite.Percent(meanError(bare[1:], paper[1:]), 0))
		all = append(all, a)
	}
	for _, how := range t.storages() {
		if n.Model.Images() && !how.KeepScores {
			continue
		}
		for _, micro := range n.MicroBatches {
			var ours, bare, convolutions []float64
			for j := range n.Columns {
				c := &r.modelled[network][j]
				m, ok := c.Memory[memoryName(how, micro)]
				if !ok {
					return nil, fmt.Errorf("records of %s: %s has no memory of %s", t.ID(), n.sample(&n.Columns[j]), memoryName(how, micro))
				}
				ours = append(ours, float64(m.activations()))
				bare = append(bare, float64(m.activations()-m.Workspace))
				convolutions = append(convolutions, float64(m.Boundary+c.Convolved*how.DType.Bytes()*int64(n.Batch/m.M)))
			}
			name := storageName(how)
			if n.Model.Images() {
				name, _, _ = strings.Cut(name, ",")
				add(name+", convolutions", micro, convolutions, convolutions)
			}
			add(name, micro, ours, bare)
		}
	}
	slices.SortStableFunc(all, func(a, b assumption) int { return cmp.Compare(a.error, b.error) })
	for _, a := range all {
		table.Add(a.cells...)
	}
	return table, nil
}

// torchgpipeRow is what torchgpipe measured, with micro-batches of one image, in
// the paper's unit; nil of a network that it has not.
func (n *table1Network) torchgpipeRow() []any {
	cells := []any{"torchgpipe, f32", 1}
	for _, c := range n.Columns {
		if c.Torchgpipe == nil {
			return nil
		}
		cell := suite.Figure(c.Torchgpipe.Activations)
		if bytes, err := units.ParseBytes(strings.ReplaceAll(cell.Text, " ", "")); err == nil {
			cell = n.Unit.of(bytes)
		}
		cells = append(cells, cell)
	}
	return cells
}

// meanError is the mean of |a/b - 1|.
func meanError(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += math.Abs(a[i]/b[i] - 1)
	}
	return sum / float64(len(a))
}

func slug(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "-")) }

// bordersTable is the training steps on both sides of the borders.
func (t *Table1) bordersTable(r *table1Results) *suite.Table {
	table := &suite.Table{
		ID: "table1-borders", Title: "Table 1, measured: training steps at the border of what fits",
		Caption: []string{"Of every line of the grid the largest network that the plan accepts and the smallest that it refuses. Both are then run without asking the plan, on devices whose memory ends with a page that cannot be touched: one step, or the error of what was out of memory. Peak: the largest plan of a device, and what the run reached. A refused network has the smallest micro-batch, with which it takes least."},
	}
	table.Texts("network", "way")
	table.Numbers("L, D", "parameters", "M", "capacity", "peak, planned", "peak, run")
	table.Texts("plan", "run")
	for i := range t.Spec.Networks {
		n := &t.Spec.Networks[i]
		for j, w := range t.Spec.Measured {
			for _, s := range r.measured[i][j].Trained {
				plan, reached, outcome := "accepts", suite.Absent, suite.Value{Text: "out of memory: " + s.Error}
				if !s.Accepted {
					plan = "refuses"
				}
				if s.OK {
					outcome = suite.Joined("trains, loss %v", suite.Fixed(s.Loss, 4))
					reached = suite.List("", slices.Max(s.HighWater))
				}
				table.Add(n.Name, w.Name, s.candidate.value(), commas(s.Params), s.M,
					int64(r.profile.Networks[i].Capacity), slices.Max(s.Peak), reached, plan, outcome)
			}
		}
	}
	return table
}
