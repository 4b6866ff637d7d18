package gpipe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// table1Results are everything that a log has for a profile.
type table1Results struct {
	conventions []counting // that are modelled
	halves      []*table1Half
}

// table1Half is a network's results. Rows are the printed ones, with the ways that are only
// measured among them, by K.
type table1Half struct {
	*table1Network
	small         miniature
	printed, rows []*table1Row
}

// table1Row is what there is for a way, or nil.
type table1Row struct {
	way
	column   *table1Column
	modelled *modelledColumn
	measured *measuredWay
}

func (t *table1) results(log *records.Log) (*table1Results, error) {
	profile, err := lab.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	r := &table1Results{conventions: t.Spec.Conventions[:profile.Conventions]}
	for i, n := range t.Spec.Networks {
		h := &table1Half{table1Network: n, small: profile.Networks[i]}
		for _, c := range n.Columns {
			m := &modelledColumn{}
			if err := log.Get(n.modelled(c), m); err != nil {
				return nil, err
			}
			if _, ok := m.Largest[t.convention().String()]; !ok {
				return nil, log.Strange(n.modelled(c), fmt.Errorf("no largest network of %v", t.convention()))
			}
			h.printed = append(h.printed, &table1Row{way: c.way, column: c, modelled: m})
		}
		h.rows = slices.Clone(h.printed)
		for _, w := range t.Spec.Measured {
			at := slices.IndexFunc(h.rows, func(r *table1Row) bool { return r.way == w })
			if at < 0 {
				at = len(h.rows)
				h.rows = append(h.rows, &table1Row{way: w})
			}
			h.rows[at].measured = &measuredWay{}
			if err := log.Get(n.measured(w), h.rows[at].measured); err != nil {
				return nil, err
			}
		}
		slices.SortStableFunc(h.rows, func(a, b *table1Row) int { return cmp.Compare(a.K, b.K) })
		r.halves = append(r.halves, h)
	}
	return r, nil
}

func (t *table1) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := t.results(log)
	if err != nil {
		return nil, err
	}
	var ref *table1Results
	var refErr error
	var beside string
	if reference != nil {
		beside = lab.ReferenceName(log, reference)
		ref, refErr = t.results(reference)
	}
	main := t.mainTable(r, ref, beside)
	switch {
	case refErr != nil:
		main.Notes = append(main.Notes, fmt.Sprintf("The reference is not shown: %v.", refErr))
	case ref != nil:
		main.Notes = append(main.Notes, lab.ReferenceNote(reference))
	}
	activations, err := t.activationsTable(r)
	if err != nil {
		return nil, err
	}
	report := &lab.Report{Tables: []*lab.Table{main, t.memoryTable(r), t.fitsTable(r), activations}}
	if report.Files, err = plot.Figure(t, "", report.Tables, t.panels(r)); err != nil {
		return nil, err
	}
	var wrong []string
	for _, h := range r.halves {
		for _, w := range h.rows {
			if w.measured == nil {
				continue
			}
			if err := w.measured.judge(); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s, %s, %s: %v", t.ID(), h.Name, w.Name, err))
			}
		}
	}
	if len(wrong) > 0 {
		report.Verdict = errors.New(strings.Join(wrong, "; "))
	}
	return report, nil
}

func (t *table1) convention() counting { return t.Spec.Conventions[0] }

func (t *table1) defaultOf(c *modelledColumn) largest { return c.Largest[t.convention().String()] }

// mainTable has the largest networks, and those of a reference (nil: none) of the given name.
func (t *table1) mainTable(r, ref *table1Results, beside string) *lab.Table {
	table := &lab.Table{
		ID: "table1", Title: t.Spec.Title,
		Caption: []string{
			"The largest network that fits on K accelerators. Naive-1: the whole network on one accelerator, M = 1; every activation of the mini-batch is kept. Pipeline-K: GPipe over K accelerators; everything is recomputed, M is the smallest power of two with which the network fits, and cuts are at whole layers, by " + t.Spec.Partitioner + " over FLOPs.",
			fmt.Sprintf("Modelled: the paper's networks on the paper's accelerators, planned from shapes: %s. Convention: %s.", t.modelledCaption(), conventionCaption(t.convention())),
			"Measured: smaller networks on devices of this host. The memory of a device, gradients included, is a mapping of exactly the capacity, and the next page cannot be accessed. The largest network of each line of the grid and the smallest that does not fit then run for one step without a check of the plan.",
			"Over Naive-1 and over Pipeline-1: by how much networks may grow, in parameters; the paper's are computed from its networks themselves. The coarser the grid of networks, the coarser these ratios; the first network of Naive-1 has the largest effect.",
			"Source of the paper's values: " + t.Spec.Source + ". torchgpipe trained the same networks: " + t.Spec.Torchgpipe + ".",
		},
	}
	table.Texts("network", "way")
	table.Numbers("paper", "paper: parameters", "torchgpipe", "modelled", "modelled: parameters", "modelled: M", "measured", "measured: parameters", "measured: M",
		"paper / Naive-1", "modelled / Naive-1", "measured / Naive-1", "paper / Pipeline-1", "modelled / Pipeline-1", "measured / Pipeline-1")
	if ref != nil {
		table.Numbers("measured, " + beside)
	}
	for i, h := range r.halves {
		for j, w := range h.rows {
			none := []any{"-", "-", "-"}
			printed, modelled, measured, referred := none, none, none, lab.Absent
			if w.column != nil {
				l := t.defaultOf(w.modelled)
				printed = []any{w.column.value(), w.column.Params.cell(), w.column.Torchgpipe.largest()}
				modelled = largestCells(l.Candidate, l.Params, l.Memory.M)
			}
			if w.measured != nil {
				measured = largestCells(w.measured.Candidate, w.measured.Params, w.measured.M)
			}
			cells := []any{h.Name, w.Name, printed, modelled, measured}
			for _, base := range h.rows[:2] {
				for k, size := range t.sizes(w)[:3] {
					cells = append(cells, timesAs(size, t.sizes(base)[k]))
				}
			}
			if ref != nil {
				if w.measured != nil {
					referred = ref.halves[i].rows[j].measured.Candidate.value()
				}
				cells = append(cells, referred)
			}
			table.Add(cells...)
		}
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %s; mini-batches of %d; %s per device.", h.Name, gridText(h.small.Model, h.small.Grid), h.small.Batch, units.FormatBytes(int64(h.small.Capacity))))
	}
	return table
}

// largestCells are the network that a search has found, its parameters and M.
func largestCells(c candidate, params int64, m int) []any {
	if c.none() {
		return []any{c.value(), "-", "-"}
	}
	return []any{c.value(), lab.Whole(params, units.FormatCount(params)), m}
}

func (t *table1) modelledCaption() string {
	var parts []string
	for _, n := range t.Spec.Networks {
		parts = append(parts, fmt.Sprintf("%s on %s with mini-batches of %d", n.Name, n.Accelerator, n.Batch))
	}
	return strings.Join(parts, ", ")
}

func conventionCaption(c counting) string {
	accounting := "memory counts parameters with the optimiser's state (12 bytes) and activations but not gradients, as in the paper"
	if c.Accounting == gpipe.FullAccounting.String() {
		accounting = "memory counts everything, gradients included"
	}
	scores := "attention keeps its probabilities"
	if !c.Scores {
		scores = "attention computes its probabilities again"
	}
	return fmt.Sprintf("activations in %s; %s; %s", c.DType, accounting, scores)
}

func gridText(m train.Model, g grid) string {
	if m.Images() {
		return fmt.Sprintf("%s at %dx%d pixels, %d classes, L of %s, D in steps of %d", m.Name, m.Image, m.Image, m.Classes, lab.JoinWith(g.Layers, ","), g.Filters.Step)
	}
	return fmt.Sprintf("%s of width %d, feed-forward %d, %d heads, vocabulary %d, %d tokens, L in steps of 1", m.Name, m.Dim, m.FF, m.Heads, m.Vocab, m.Seq)
}

func timesAs(a, b int64) lab.Value {
	if a == 0 || b == 0 {
		return lab.Absent
	}
	return lab.Fixed(float64(a)/float64(b), 1)
}

// sizes are the parameters of a way's networks: the paper's, modelled, measured, and
// modelled with the micro-batch held; 0 where there is none.
func (t *table1) sizes(w *table1Row) []int64 {
	s := make([]int64, 4)
	if m := w.modelled; m != nil {
		s[0], s[1], s[3] = m.Params, t.defaultOf(m).Params, m.Held[t.convention().String()].Params
	}
	if w.measured != nil {
		s[2] = w.measured.Params
	}
	return s
}

// panels draw the networks' parameters, from the naive way to the largest K.
func (t *table1) panels(r *table1Results) []plot.Axes {
	var out []plot.Axes
	for _, h := range r.halves {
		p := plot.LinePanel{Title: h.Name, X: "accelerators K (naive: one)", Y: "parameters of the largest network", Logarithmic: true, Counts: true}
		for _, w := range h.rows {
			name := fmt.Sprint(w.K)
			if w.Naive {
				name = "naive"
			}
			p.Names = append(p.Names, name)
		}
		for _, s := range []struct {
			name   string
			of     int
			dashed bool
		}{{"paper", 0, false}, {"modelled", 1, false}, {"modelled, micro-batch held", 3, true}, {"measured, devices of " + units.FormatBytes(int64(h.small.Capacity)), 2, false}} {
			var line []plot.Point
			for i, w := range h.rows {
				if size := t.sizes(w)[s.of]; size > 0 {
					line = append(line, plot.Point{X: float64(i), Y: float64(size)})
				}
			}
			p.Series = append(p.Series, plot.Series{Name: s.name, Lines: [][]plot.Point{line}, Dashed: s.dashed})
		}
		out = append(out, p)
	}
	return out
}

// memoryTable is the paper's networks themselves.
func (t *table1) memoryTable(r *table1Results) *lab.Table {
	table := &lab.Table{
		ID: "table1-memory", Title: "Table 1: memory of the paper's networks",
		Caption: []string{
			"The number of parameters, the memory of parameters (12 bytes each) and the peak memory of activations. Memory is summed over the accelerators, in the paper's unit. Ours: " + conventionCaption(t.convention()) + ". Activations are boundary stash, residuals and workspace, with the largest micro-batch with which the network fits (the next column is its M). In brackets: the network does not fit, and the figure is that of the smallest micro-batch.",
			"Source of the paper's values: " + t.Spec.Source + ". torchgpipe: " + t.Spec.Torchgpipe + ".",
		},
	}
	table.Texts("network", "way")
	table.Numbers("L, D")
	table.Texts("unit")
	table.Numbers("parameters", "paper: parameters", "torchgpipe: parameters", "12 bytes each", "paper: parameters' memory", "torchgpipe: parameters' memory",
		"activations", "M", "paper: activations", "torchgpipe: activations")
	for _, h := range r.halves {
		for _, w := range h.printed {
			c, l := w.column, t.defaultOf(w.modelled)
			activations := h.Unit.of(l.PrintedMemory.activations())
			if l.PrintedMicro == 0 || c.Naive && l.PrintedMicro < h.Batch {
				activations = lab.Joined("(%v)", activations)
			}
			var other otherFigures
			if c.Torchgpipe != nil {
				other = *c.Torchgpipe
			}
			printedParams, printedActivations := c.memory()
			table.Add(h.Name, c.Name, c.value(), h.Unit, lab.Whole(w.modelled.Params, units.FormatCommas(w.modelled.Params)), c.Params.cell(), lab.Figure(other.Params),
				h.Unit.of(12*w.modelled.Params), printedParams.cell(), lab.Figure(other.ParamMemory),
				activations, l.PrintedMemory.M, printedActivations.cell(), lab.Figure(other.Activations))
		}
	}
	return table
}

// fitsTable shows under which conventions the paper's networks fit, as the paper found, and the largest network
// that fits under each.
func (t *table1) fitsTable(r *table1Results) *lab.Table {
	table := &lab.Table{
		ID: "table1-fits", Title: "Table 1: which conventions let the paper's networks fit, and the largest network under each",
		Caption: []string{
			"Fits: the smallest M with which every accelerator holds its part of the paper's network, and the peak of the fullest accelerator. no: the network does not fit with any M; then the peak is the smallest micro-batch's. Naive-1, no: the mini-batch does not fit; then the number says how many examples would fit. Least micro-batch: examples that must fit at once, one with GPipe and the mini-batch without. Largest: examples that do, with " + conventionCaption(t.convention()) + ".",
			"Largest, by convention: the modelled column of table1, and after the network M. bf16, f32: the type of activations. paper: gradients (4 bytes per parameter) are not counted; full: gradients are counted. no scores: attention computes its probabilities again.",
		},
	}
	table.Texts("network", "way")
	table.Numbers("L, D", "capacity", "least micro-batch", "largest micro-batch")
	for _, what := range []string{"fits", "largest"} {
		for _, c := range r.conventions {
			table.Numbers(what + ", " + c.String())
		}
	}
	for _, h := range r.halves {
		for _, w := range h.printed {
			var fits, found []lab.Value
			for _, c := range r.conventions {
				largest, peak := lab.Absent, lab.Absent
				if l, ok := w.modelled.Largest[c.String()]; ok {
					peak = h.fits(w, c, l)
					if largest = l.Candidate.value(); !l.Candidate.none() {
						largest = lab.Joined("%v, %v", largest, l.Memory.M)
					}
				}
				fits, found = append(fits, peak), append(found, largest)
			}
			least := 1
			if w.Naive {
				least = h.Batch
			}
			table.Add(h.Name, w.Name, w.column.value(), lab.Bytes(w.modelled.Capacity), least, t.defaultOf(w.modelled).PrintedMicro, fits, found)
		}
	}
	return table
}

// fits is with which M one of the paper's networks fits, or that it does not.
func (h *table1Half) fits(w *table1Row, c counting, l largest) lab.Value {
	peak := lab.Bytes(l.PrintedMemory.Peak[c.Accounting])
	switch {
	case w.Naive && l.PrintedMicro < h.Batch:
		return lab.Joined("no: %v examples", l.PrintedMicro)
	case l.PrintedMicro == 0:
		return lab.Joined("no: %v", peak)
	}
	return lab.Joined("M = %v: %v", l.PrintedMemory.M, peak)
}
