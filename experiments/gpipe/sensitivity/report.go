package sensitivity

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"gonum.org/v1/gonum/stat"

	"gpipebench/gpipe/accelerator"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// moved is where the ends of an assumption move a part's cells; nil: there is no such end.
type moved struct {
	assumption
	low, high []float64
}

// readPart is a part with what the log says of it.
type readPart struct {
	part
	own   []float64 // of the cells, with nothing moved
	moves []moved   // of the assumptions that move any cell
}

func (s *sensitivity) read(log *records.Log, p part) (r readPart, err error) {
	r.part = p
	if r.own, err = p.values(log, accelerator.Variation{}); err != nil {
		return r, err
	}
	for _, a := range s.assumptions(p.accelerator) {
		m := moved{assumption: a}
		for _, end := range []struct {
			v  *accelerator.Variation
			to *[]float64
		}{{a.low, &m.low}, {a.high, &m.high}} {
			if end.v == nil {
				continue
			}
			if *end.to, err = p.values(log, *end.v); err != nil {
				return r, err
			}
		}
		if r.reacts(m.low) || r.reacts(m.high) {
			r.moves = append(r.moves, m)
		}
	}
	return r, nil
}

// reacts reports whether any cell moves by a thousandth.
func (r *readPart) reacts(to []float64) bool {
	for i := range to {
		if math.Abs(to[i]/r.own[i]-1) >= 0.001 {
			return true
		}
	}
	return false
}

// end is a cell's value at an end; NaN: there is none.
func end(values []float64, cell int) float64 {
	if values == nil {
		return math.NaN()
	}
	return values[cell]
}

// swing is how far an assumption moves a cell, from its lowest to its highest value.
func (r *readPart) swing(m moved, cell int) float64 {
	lo, hi := r.own[cell], r.own[cell]
	for _, values := range [][]float64{m.low, m.high} {
		if values != nil {
			lo, hi = min(lo, values[cell]), max(hi, values[cell])
		}
	}
	return hi - lo
}

// widest are the moves of a cell, the widest first.
func (r *readPart) widest(cell int) []moved {
	all := slices.Clone(r.moves)
	slices.SortStableFunc(all, func(a, b moved) int {
		switch x, y := r.swing(a, cell), r.swing(b, cell); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return slices.DeleteFunc(all, func(m moved) bool { return r.swing(m, cell) == 0 })
}

// error is the mean absolute error of the judged cells.
func (r *readPart) error(values []float64) float64 {
	var off []float64
	for i, c := range r.cells {
		if c.judged {
			off = append(off, math.Abs(values[i]/c.paper-1))
		}
	}
	return stat.Mean(off, nil)
}

func (s *sensitivity) Report(log, _ *records.Log) (*lab.Report, error) {
	var parts []readPart
	for _, p := range s.parts() {
		r, err := s.read(log, p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, r)
	}
	report := &lab.Report{Tables: []*lab.Table{s.mostTable(parts), s.goalTable(parts), s.allTable(parts)}}
	for _, r := range parts {
		panels := s.tornados(&r)
		if len(panels) == 0 {
			continue
		}
		of := r.table + ", " + r.network
		files, err := plot.Files(s.ID()+"-"+fileName(of), of+": how far each assumption moves a modelled cell", panels)
		if err != nil {
			return nil, err
		}
		report.Files = append(report.Files, files...)
	}
	return report, nil
}

// mostTable names, for each cell, the assumption that moves it most.
func (s *sensitivity) mostTable(parts []readPart) *lab.Table {
	t := &lab.Table{
		ID: s.ID(), Title: s.Spec.Title,
		Caption: []string{
			"Modelled: by the default convention at measured rates, relative to the base, as in table2-modelled, table3 and figure3 (with memory filled). Each efficiency of the cell's accelerator is moved to either end of its published band (gpipe/accelerators), one at a time, also in the base. Moved most by: the efficiency that moves the cell furthest, and where its ends move it. Nearest: the end of any band that brings the cell nearest to the paper's value.",
			"Nothing published: what moves the cell most among " + strings.Join(s.Spec.Others, ", ") + ", about which nothing is published.",
		},
	}
	t.Texts("table", "network", "cell")
	t.Numbers("paper", "modelled", "error")
	t.Texts("moved most by")
	t.Numbers("low end", "high end")
	t.Texts("nearest by")
	t.Numbers("nearest", "error then")
	t.Texts("nothing published")
	t.Numbers("with that")
	for _, r := range parts {
		for i, c := range r.cells {
			most, best, nearest, unpublished, with := "-", "as it is", r.own[i], "-", lab.Absent
			low, high := lab.Absent, lab.Absent
			for _, m := range r.widest(i) {
				if !m.published {
					if unpublished == "-" {
						unpublished, with = m.name, lab.Fixed(end(m.high, i), 2)
					}
					continue
				}
				if most == "-" {
					most, low, high = m.name, fixed(end(m.low, i)), fixed(end(m.high, i))
				}
				for _, e := range []struct {
					name   string
					values []float64
				}{{"low", m.low}, {"high", m.high}} {
					if v := end(e.values, i); math.Abs(v-c.paper) < math.Abs(nearest-c.paper) {
						best, nearest = m.name+", "+e.name, v
					}
				}
			}
			t.Add(r.table, r.network, c.name, lab.Figure(fmt.Sprint(c.paper)), lab.Fixed(r.own[i], 2), lab.Signed(r.own[i]/c.paper-1), most, low, high,
				best, lab.Fixed(nearest, 2), lab.Signed(nearest/c.paper-1), unpublished, with)
		}
	}
	return t
}

// fixed is a value with two decimals, absent if it is NaN.
func fixed(x float64) lab.Value {
	if math.IsNaN(x) {
		return lab.Absent
	}
	return lab.Fixed(x, 2)
}

// goalTable has what each end makes of the mean errors that have a goal, and says of each
// goal that is missed what would explain it.
func (s *sensitivity) goalTable(parts []readPart) *lab.Table {
	t := &lab.Table{
		ID: s.ID() + "-goals", Title: "Mean absolute error at the largest M if one assumption is at an end of its band",
		Caption: []string{"Only assumptions that move a cell are listed. Published: the assumption has a published band. Of the others the high end is the other convention. Within the goal: either end is."},
	}
	t.Texts("goal", "assumption", "published")
	t.Numbers("low end", "high end", "goal, percent")
	t.Texts("within the goal")
	var goals []string
	for _, r := range parts {
		if r.goal != "" && !slices.Contains(goals, r.goal) {
			goals = append(goals, r.goal)
		}
	}
	for _, goal := range goals {
		of := slices.DeleteFunc(slices.Clone(parts), func(r readPart) bool { return r.goal != goal })
		mean := func(values func(*readPart) []float64) float64 {
			sum := 0.0
			for i := range of {
				sum += of[i].error(values(&of[i])) / float64(len(of))
			}
			return sum
		}
		own := mean(func(r *readPart) []float64 { return r.own })
		within := func(x float64) bool { return 100*x <= of[0].reach }
		t.Add(goal, "as it is", "", lab.Percent(own, 1), lab.Percent(own, 1), lab.Fixed(of[0].reach, 0), yesNo(within(own)))
		var explain []string
		for _, a := range s.assumptions(of[0].accelerator) {
			moves := false
			at := func(which func(moved) []float64, has bool) (float64, lab.Value) {
				if !has {
					return math.NaN(), lab.Absent
				}
				x := mean(func(r *readPart) []float64 {
					for _, m := range r.moves {
						if m.name == a.name {
							moves = true
							return which(m)
						}
					}
					return r.own
				})
				return x, lab.Percent(x, 1)
			}
			low, printedLow := at(func(m moved) []float64 { return m.low }, a.low != nil)
			high, printedHigh := at(func(m moved) []float64 { return m.high }, a.high != nil)
			if !moves {
				continue
			}
			t.Add(goal, a.name, yesNo(a.published), printedLow, printedHigh, lab.Fixed(of[0].reach, 0), yesNo(within(low) || within(high)))
			for _, e := range []struct {
				name string
				x    float64
			}{{"low", low}, {"high", high}} {
				if a.published && within(e.x) {
					explain = append(explain, fmt.Sprintf("%s at its %s end (%s)", a.name, e.name, lab.Percent(e.x, 1)))
				}
			}
		}
		t.Notes = append(t.Notes, note(goal, of, own, within(own), explain))
	}
	return t
}

// note says whether a goal is reached and, if not, by which cell it is missed most and
// what would explain that.
func note(goal string, of []readPart, own float64, within bool, explain []string) string {
	if within {
		return fmt.Sprintf("%s: %s, within the goal of %.0f%%.", goal, lab.Percent(own, 1), of[0].reach)
	}
	var worst string
	most := -1.0
	for _, r := range of {
		for i, c := range r.cells {
			if off := math.Abs(r.own[i]/c.paper - 1); c.judged && off > most {
				worst, most = fmt.Sprintf("%s at %s: %.2f, the paper has %v", r.network, c.name, r.own[i], c.paper), off
			}
		}
	}
	text := fmt.Sprintf("%s: %s; the goal is %.0f%%. It is missed most by %s.", goal, lab.Percent(own, 1), of[0].reach, worst)
	if len(explain) == 0 {
		return text + " No assumption with a published band brings it within the goal by itself."
	}
	return text + " Within the goal would be: " + strings.Join(explain, "; ") + "."
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// allTable has every cell at both ends of every assumption that moves it.
func (s *sensitivity) allTable(parts []readPart) *lab.Table {
	t := &lab.Table{
		ID: s.ID() + "-cells", Title: "Every modelled cell at both ends of every assumption that moves it",
		Caption: []string{"The widest first. Published: the assumption has a published band. Of the others the high end is the other convention."},
	}
	t.Texts("table", "network", "cell", "assumption", "published")
	t.Numbers("paper", "modelled", "low end", "high end", "moved by, low", "moved by, high")
	for _, r := range parts {
		for i, c := range r.cells {
			for _, m := range r.widest(i) {
				by := func(x float64) lab.Value {
					if math.IsNaN(x) {
						return lab.Absent
					}
					return lab.Signed(x/r.own[i] - 1)
				}
				low, high := end(m.low, i), end(m.high, i)
				t.Add(r.table, r.network, c.name, m.name, yesNo(m.published), lab.Figure(fmt.Sprint(c.paper)), lab.Fixed(r.own[i], 2), fixed(low), fixed(high), by(low), by(high))
			}
		}
	}
	return t
}

// fileName is a text in small letters, digits and hyphens.
func fileName(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), "-")
}

// tornados are plots of all cells that any assumption moves.
func (s *sensitivity) tornados(r *readPart) (panels []plot.Axes) {
	for i, c := range r.cells {
		p := &plot.TornadoPanel{Title: c.name, X: "throughput", Value: r.own[i], Paper: c.paper}
		for _, m := range r.widest(i) {
			if len(p.Swings) < s.Spec.Bars {
				p.Swings = append(p.Swings, plot.Swing{Name: m.name, Low: end(m.low, i), High: end(m.high, i)})
			}
		}
		if len(p.Swings) > 0 {
			panels = append(panels, p)
		}
	}
	return panels
}
