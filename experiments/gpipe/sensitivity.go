package gpipe

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
)

// sensitivitySpec is the spec of sensitivity.
type sensitivitySpec struct {
	lab.Head `yaml:",inline"`
	Others   []string          `yaml:"others" want:"optional"` // variations without a published band
	Tables   []shown.TableSpec `yaml:"tables" want:"shown"`
	Bars     int               `yaml:"bars" want:"1..20"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// sensitivity moves what is assumed of modelled accelerators to the ends of its published bands,
// one assumption at a time. It has code of its own since its cells belong to other experiments.
type sensitivity struct {
	lab.Base[sensitivitySpec]
	table2  *cells.Scale
	table3  *cells.Scale
	figure3 *figure3
	others  []accelerator.Variation
}

func newSensitivity() (lab.Experiment, error) {
	two, three, decides, err := ModelledTables()
	if err != nil {
		return nil, err
	}
	figure, err := another[*figure3]("figure3", newFigure3)
	if err != nil {
		return nil, err
	}
	s := &sensitivity{table2: two, table3: three, figure3: figure}
	s.Base.Others = func(profile string) string { return decides(profile) + figure.Decides(profile) }
	return s, nil
}

func (s *sensitivity) Resolve() (p *lab.Problem) {
	if s.others, p = variations("others", s.Spec.Others); p == nil {
		p = s.words().CheckForms(&s.Spec)
	}
	return p
}

// words are the spec's, which has no bars but its own.
func (s *sensitivity) words() *shown.Spec { return &shown.Spec{Tables: s.Spec.Tables} }

// part is one network's cells in one table.
type part struct {
	table, network, accelerator string
	cells                       []partCell

	jobs   func([]accelerator.Variation) []lab.Job                           // that make what values reads
	values func(*records.Log, accelerator.Variation) ([]cells.Figure, error) // of the cells
}

// partCell is a value of the paper; the cells that are 1 by definition are left out.
type partCell struct {
	name  string
	paper float64
}

// parts are all networks of all tables.
func (s *sensitivity) parts() (parts []part) {
	for _, of := range []struct {
		name  string
		scale *cells.Scale
	}{{"Table 2", s.table2}, {"Table 3", s.table3}} {
		for _, n := range of.scale.Networks {
			parts = append(parts, scalePart(of.name, of.scale, n))
		}
	}
	return append(parts, s.figureParts()...)
}

// scalePart is a network of a Scale under the default convention.
func scalePart(table string, scale *cells.Scale, n *cells.Network) part {
	alone := scale.Standard()
	alone.Networks = slices.DeleteFunc(alone.Networks, func(other *cells.Network) bool { return other.ID != n.ID })
	p := part{table: table, network: n.Name, accelerator: n.Accelerator}
	var at []lab.Cell
	for _, c := range alone.Cells() {
		if c != alone.Base {
			at = append(at, c)
			p.cells = append(p.cells, partCell{fmt.Sprintf("K = %d, M = %d", c.K, c.M), n.Paper.Of(c).Value.Number()})
		}
	}
	p.jobs = func(vs []accelerator.Variation) []lab.Job {
		var scales []*cells.Scale
		for _, v := range vs {
			scales = append(scales, alone.Varied(v))
		}
		return cells.JobsOf(scales...)
	}
	p.values = func(log *records.Log, v accelerator.Variation) (values []cells.Figure, err error) {
		m, err := alone.Varied(v).ReadOwn(log)
		if err != nil {
			return nil, err
		}
		for _, c := range at {
			values = append(values, m.Relative(m.Networks[0], m.ConventionsOf(m.Networks[0])[0], c))
		}
		return values, nil
	}
	return p
}

// figureParts are the networks of Figure 3, with memory filled.
func (s *sensitivity) figureParts() (parts []part) {
	modelled := s.figure3.Spec.Modelled
	for i := range s.figure3.Spec.Networks {
		n := &s.figure3.Spec.Networks[i]
		p := part{table: "Figure 3", network: n.Name, accelerator: modelled.Accelerator, jobs: s.figure3.jobs} // of all its networks
		var others []*scenario
		for j := range n.Scenarios {
			if c := &n.Scenarios[j]; c.Name != n.Base {
				p.cells, others = append(p.cells, partCell{c.Name, c.Paper.Number()}), append(others, c)
			}
		}
		p.values = func(log *records.Log, v accelerator.Variation) (values []cells.Figure, err error) {
			for _, c := range others {
				relative, err := modelled.Relative(log, n.base().run(), c.run(), v)
				if err != nil {
					return nil, err
				}
				if len(relative[1].Numbers) == 0 {
					return nil, fmt.Errorf("%s does not fit", c.run())
				}
				values = append(values, cells.Figure{X: relative[1].Numbers[0], Fits: true})
			}
			return values, nil
		}
		parts = append(parts, p)
	}
	return parts
}

// assumption is one thing that may be otherwise.
type assumption struct {
	name      string
	published bool                      // it has a band
	ends      [2]*accelerator.Variation // low and high; nil: none
}

// assumptions are those about an accelerator: its bands, and then the others, each with
// one end.
func (s *sensitivity) assumptions(on string) (all []assumption) {
	a := lab.Named(accelerator.Named, on)
	for _, b := range a.Bands() {
		all = append(all, assumption{b.Name, true, [2]*accelerator.Variation{b.Low, b.High}})
	}
	for i := range s.others {
		all = append(all, assumption{name: s.others[i].Name, ends: [2]*accelerator.Variation{nil, &s.others[i]}})
	}
	return all
}

func (s *sensitivity) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	for _, part := range s.parts() {
		varied := []accelerator.Variation{{}}
		for _, a := range s.assumptions(part.accelerator) {
			for _, v := range a.ends {
				if v != nil {
					varied = append(varied, *v)
				}
			}
		}
		jobs = append(jobs, part.jobs(varied)...)
	}
	return lab.MakeMissing(ctx, s.ID(), log, p, jobs)
}

// movedBy is where the ends of an assumption move a part's cells; nil: there is no such end.
type movedBy struct {
	assumption
	to [2][]cells.Figure
}

// readPart is a part with what the log says of it.
type readPart struct {
	part
	own   []cells.Figure // of the cells, with nothing moved
	moves []movedBy      // of the assumptions that move any cell
}

func (s *sensitivity) read(log *records.Log, p part) (r readPart, err error) {
	r.part = p
	if r.own, err = p.values(log, accelerator.Variation{}); err != nil {
		return r, err
	}
	for _, a := range s.assumptions(p.accelerator) {
		m := movedBy{assumption: a}
		for i, v := range a.ends {
			if v == nil {
				continue
			}
			if m.to[i], err = p.values(log, *v); err != nil {
				return r, err
			}
		}
		if r.reacts(m.to[0]) || r.reacts(m.to[1]) {
			r.moves = append(r.moves, m)
		}
	}
	return r, nil
}

// reacts reports whether any cell moves by a thousandth.
func (r *readPart) reacts(to []cells.Figure) bool {
	for i := range to {
		if math.Abs(to[i].X/r.own[i].X-1) >= 0.001 {
			return true
		}
	}
	return false
}

// valueAt is a cell's value at an end; NaN: there is none.
func valueAt(values []cells.Figure, cell int) float64 {
	if values == nil {
		return math.NaN()
	}
	return values[cell].X
}

// swing is how far an assumption moves a cell, from its lowest to its highest value.
func (r *readPart) swing(m movedBy, cell int) float64 {
	lo, hi := r.own[cell].X, r.own[cell].X
	for _, values := range m.to {
		if values != nil {
			lo, hi = min(lo, values[cell].X), max(hi, values[cell].X)
		}
	}
	return hi - lo
}

// widest are the moves of a cell, the widest first.
func (r *readPart) widest(cell int) []movedBy {
	all := slices.Clone(r.moves)
	slices.SortStableFunc(all, func(a, b movedBy) int { return cmp.Compare(r.swing(b, cell), r.swing(a, cell)) })
	return slices.DeleteFunc(all, func(m movedBy) bool { return r.swing(m, cell) == 0 })
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
	report, err := s.words().Report(s, "", shown.Showing{ID: s.ID(), Title: s.Title(), Data: &s.Spec, Rows: shown.Rows{"": mostRows(parts)}})
	if err != nil {
		return nil, err
	}
	report.Tables[0].Notes = lab.StarNote(report.Tables[0])
	for _, r := range parts {
		panels, finding := s.tornados(&r)
		if len(panels) == 0 {
			continue
		}
		of := r.table + ", " + r.network
		files, err := plot.Files(s.ID()+"-"+lab.Slug(of), lab.Heading{Finding: finding, Subject: of + ": how far each assumption moves a modelled cell"}, panels)
		if err != nil {
			return nil, err
		}
		report.Files = append(report.Files, files...)
	}
	return report, nil
}

// mostRows name, for each cell, the assumption that moves it most.
func mostRows(parts []readPart) (rows []shown.Values) {
	for _, r := range parts {
		for i, c := range r.cells {
			row := shown.Values{
				"table": r.table, "network": r.network, "cell": c.name, "paper": c.paper, "modelled": r.own[i].Value(),
				"most": "-", "low": math.NaN(), "high": math.NaN(), "best": "as it is", "nearest": r.own[i].X, "unpublished": "-", "with": math.NaN(),
			}
			for _, m := range r.widest(i) {
				if !m.published {
					if row["unpublished"] == "-" {
						row["unpublished"], row["with"] = m.name, m.to[1][i].X
					}
					continue
				}
				if row["most"] == "-" {
					row["most"], row["low"], row["high"] = m.name, valueAt(m.to[0], i), valueAt(m.to[1], i)
				}
				for e, name := range []string{"low", "high"} {
					if v := valueAt(m.to[e], i); math.Abs(v-c.paper) < math.Abs(row["nearest"].(float64)-c.paper) {
						row["best"], row["nearest"] = m.name+", "+name, v
					}
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// tornados are plots of all cells that any assumption moves. The finding is which one moves a cell furthest, for its size.
func (s *sensitivity) tornados(r *readPart) (panels []plot.Axes, finding string) {
	widest := 0.0
	for i, c := range r.cells {
		p := &plot.TornadoPanel{Title: c.name, X: "throughput", Value: r.own[i].X, Paper: c.paper}
		moves := r.widest(i)
		for _, m := range moves[:min(len(moves), s.Spec.Bars)] {
			p.Swings = append(p.Swings, plot.Swing{Name: m.name, Low: valueAt(m.to[0], i), High: valueAt(m.to[1], i)})
			for e := range m.to {
				to := valueAt(m.to[e], i)
				if moved := math.Abs(to/p.Value - 1); moved > widest {
					widest, finding = moved, fmt.Sprintf("Furthest moved: %s, from %.2f to %.2f, by %s (paper: %.4g)", p.Title, p.Value, to, m.name, p.Paper)
				}
			}
		}
		if len(moves) > 0 {
			panels = append(panels, p)
		}
	}
	return panels, finding
}

// variations are those that a field of a spec names.
func variations(field string, names []string) (all []accelerator.Variation, _ *lab.Problem) {
	for _, name := range names {
		v, err := accelerator.ParseVariation(name)
		if err != nil {
			return nil, lab.At(err, field)
		}
		all = append(all, v)
	}
	return all, nil
}
