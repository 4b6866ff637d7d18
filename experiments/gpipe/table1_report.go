package gpipe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
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

// Report has a row for each way of a network, one for each of the paper's columns, and one for each assumption on
// activations.
func (t *table1) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := t.results(log)
	if err != nil {
		return nil, err
	}
	from := shown.Showing{ID: t.ID(), Title: t.Title(), Data: t.data(log.Key.Profile)}
	var notes []string
	var ref *table1Results
	if reference != nil {
		if ref, err = t.results(reference); err != nil {
			notes = []string{fmt.Sprintf("The reference is not shown: %v.", err)}
		} else {
			from.Reference, notes = lab.ReferenceName(log, reference), []string{lab.ReferenceNote(reference)}
		}
	}
	from.Rows = shown.Rows{"": t.largestRows(r, ref), "memory": t.memoryRows(r), "fits": t.fitsRows(r)}
	if from.Rows["activations"], err = t.activationRows(r); err != nil {
		return nil, err
	}
	report, err := t.Spec.Spec.Report(t, "", from, t.panels(r)...)
	if err != nil {
		return nil, err
	}
	report.Tables[0].Notes = append(report.Tables[0].Notes, notes...)
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

// data is what the templates of the spec's words have.
func (t *table1) data(profile string) map[string]any {
	var measured []string
	for i, m := range t.Spec.Profiles[profile].Networks {
		measured = append(measured, fmt.Sprintf("%s is measured as %s; mini-batches of %d; %s per device.", t.Spec.Networks[i].Name, gridText(m.Model, m.Grid), m.Batch, units.FormatBytes(int64(m.Capacity))))
	}
	return map[string]any{"Spec": &t.Spec, "Convention": conventionCaption(t.convention()), "Measured": measured}
}

func (t *table1) convention() counting { return t.Spec.Conventions[0] }

func (t *table1) defaultOf(c *modelledColumn) largest { return c.Largest[t.convention().String()] }

// largestRows are the largest networks of each way, and those of a reference (nil: none).
func (t *table1) largestRows(r, ref *table1Results) (rows []shown.Values) {
	for i, h := range r.halves {
		for j, w := range h.rows {
			row := shown.Values{"network": h.Name, "way": w.Name, "paper": lab.Absent, "paper_params": lab.Absent, "torchgpipe": lab.Absent, "before": lab.Absent}
			found := func(of string, is bool, c candidate, params int64, m int) {
				row[of], row[of+"_params"], row[of+"_M"] = lab.Absent, lab.Absent, lab.Absent
				if is {
					row[of] = c.value()
				}
				if is && !c.none() {
					row[of+"_params"], row[of+"_M"] = lab.Whole(params, units.FormatCount(params)), m
				}
			}
			var l largest
			if w.column != nil {
				l = t.defaultOf(w.modelled)
				row["paper"], row["paper_params"], row["torchgpipe"] = w.column.value(), w.column.Params.cell(), w.column.Torchgpipe.largest()
			}
			found("modelled", w.column != nil, l.Candidate, l.Params, l.Memory.M)
			m := cmp.Or(w.measured, &measuredWay{})
			found("measured", w.measured != nil, m.Candidate, m.Params, m.M)
			if ref != nil && w.measured != nil {
				row["before"] = ref.halves[i].rows[j].measured.Candidate.value()
			}
			for k, of := range []string{"paper", "modelled", "measured"} {
				row["size_"+of], row["naive_"+of], row["one_"+of] = t.sizes(w)[k], t.sizes(h.rows[0])[k], t.sizes(h.rows[1])[k]
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func conventionCaption(c counting) string {
	accounting := "memory counts parameters with the optimiser's state (12 bytes) and activations but not gradients, as in the paper"
	if c.Accounting == gpipe.FullAccounting.String() {
		accounting = "memory counts everything, gradients included"
	}
	scores := "attention keeps its probabilities"
	if !c.Scores {
		scores = "attention recomputes its probabilities"
	}
	return fmt.Sprintf("activations in %s; %s; %s", c.DType, accounting, scores)
}

func gridText(m train.Model, g grid) string {
	if m.Images() {
		return fmt.Sprintf("%s at %dx%d pixels, %d classes, L of %s, D in steps of %d", m.Name, m.Image, m.Image, m.Classes, lab.JoinWith(g.Layers, ","), g.Filters.Step)
	}
	return fmt.Sprintf("%s of width %d, feed-forward %d, %d heads, vocabulary %d, %d tokens, L in steps of 1", m.Name, m.Dim, m.FF, m.Heads, m.Vocab, m.Seq)
}

// sizes are the parameters of a way's networks: the paper's, modelled, measured, and
// modelled with the micro-batch held; NaN where there is none.
func (t *table1) sizes(w *table1Row) []float64 {
	s := make([]int64, 4)
	if m := w.modelled; m != nil {
		s[0], s[1], s[3] = m.Params, t.defaultOf(m).Params, m.Held[t.convention().String()].Params
	}
	if w.measured != nil {
		s[2] = w.measured.Params
	}
	sizes := make([]float64, len(s))
	for i, n := range s {
		if sizes[i] = float64(n); n == 0 {
			sizes[i] = math.NaN()
		}
	}
	return sizes
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
					line = append(line, plot.Point{X: float64(i), Y: size})
				}
			}
			p.Series = append(p.Series, plot.Series{Name: s.name, Lines: [][]plot.Point{line}, Dashed: s.dashed})
		}
		out = append(out, p)
	}
	return out
}

// memoryRows are the paper's networks themselves.
func (t *table1) memoryRows(r *table1Results) (rows []shown.Values) {
	for _, h := range r.halves {
		for _, w := range h.printed {
			c, l := w.column, t.defaultOf(w.modelled)
			activations := h.Unit.of(l.PrintedMemory.activations())
			if l.PrintedMicro == 0 || c.Naive && l.PrintedMicro < h.Batch {
				activations = lab.Joined("(%v)", activations)
			}
			other := cmp.Or(c.Torchgpipe, &otherFigures{})
			printedParams, printedActivations := c.memory()
			rows = append(rows, shown.Values{
				"network": h.Name, "way": c.Name, "layers": c.value(), "unit": h.Unit.String(), "params": lab.Whole(w.modelled.Params, units.FormatCommas(w.modelled.Params)),
				"paper_params": c.Params.cell(), "other_params": lab.Figure(other.Params),
				"state": h.Unit.of(12 * w.modelled.Params), "paper_state": printedParams.cell(), "other_state": lab.Figure(other.ParamMemory),
				"activations": activations, "M": l.PrintedMemory.M, "paper_activations": printedActivations.cell(), "other_activations": lab.Figure(other.Activations),
			})
		}
	}
	return rows
}

// fitsRows say under which conventions the paper's networks fit, as the paper found, and the largest network
// that fits under each.
func (t *table1) fitsRows(r *table1Results) (rows []shown.Values) {
	for _, h := range r.halves {
		for _, w := range h.printed {
			row := shown.Values{"network": h.Name, "way": w.Name, "layers": w.column.value(), "capacity": w.modelled.Capacity, "least": 1, "micro": t.defaultOf(w.modelled).PrintedMicro}
			if w.Naive {
				row["least"] = h.Batch
			}
			for i, c := range t.Spec.Conventions {
				largest, peak := lab.Absent, lab.Absent
				if l, ok := w.modelled.Largest[c.String()]; ok && i < len(r.conventions) {
					peak = h.fits(w, c, l)
					if largest = l.Candidate.value(); !l.Candidate.none() {
						largest = lab.Joined("%v, %v", largest, l.Memory.M)
					}
				}
				row["fits_"+shown.Word(c.String())], row["largest_"+shown.Word(c.String())] = peak, largest
			}
			rows = append(rows, row)
		}
	}
	return rows
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
