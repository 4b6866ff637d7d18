// Package sensitivity moves what is assumed of modelled accelerators to the ends of its
// published bands, one assumption at a time.
package sensitivity

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/experiments/gpipe/figure3"
	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/records"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "sensitivity", Folder: folder, New: load}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	Others   []string `yaml:"others" want:"optional"` // variations without a published band
	Bars     int      `yaml:"bars" want:"1..20"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// sensitivity has the tables whose cells it moves.
type sensitivity struct {
	lab.Base[spec]
	tables  *modelled.Experiment
	figure3 *figure3.Experiment
	others  []accelerator.Variation
}

func load() (lab.Experiment, error) {
	tables, err := modelled.Definition.Load()
	if err != nil {
		return nil, err
	}
	figure, err := figure3.Definition.Load()
	if err != nil {
		return nil, err
	}
	s := &sensitivity{tables: tables.(*modelled.Experiment), figure3: figure.(*figure3.Experiment)}
	s.Base.Others = func(profile string) string { return s.tables.Decides(profile) + s.figure3.Decides(profile) }
	return s, nil
}

func (s *sensitivity) Resolve() *lab.Problem {
	s.others = nil
	for _, name := range s.Spec.Others {
		v, err := accelerator.ParseVariation(name)
		if err != nil {
			return lab.At(err, "others")
		}
		s.others = append(s.others, v)
	}
	if _, three := s.tables.Scales(); slices.ContainsFunc(three.Networks, func(n *cells.Network) bool { return n.Accelerator != three.Networks[0].Accelerator }) {
		return lab.At(errors.New("want one accelerator for Table 3, which has one goal"), "others")
	}
	return nil
}

// part is one network's cells in one table.
type part struct {
	table, network, accelerator string
	cells                       []cell
	reach                       float64 // of the mean absolute error over the judged cells, percent; 0: no goal
	goal                        string  // what it has together with other parts of the same goal

	jobs   func(accelerator.Variation) []lab.Job                        // that make what values reads
	values func(*records.Log, accelerator.Variation) ([]float64, error) // of the cells
}

// cell is a value of the paper; the cells that are 1 by definition are left out.
type cell struct {
	name   string
	paper  float64
	judged bool // by the goal: it is of the largest M
}

// parts are all networks of all tables.
func (s *sensitivity) parts() (parts []part) {
	two, three := s.tables.Scales()
	for _, of := range []struct {
		name  string
		scale *cells.Scale
	}{{"Table 2", two}, {"Table 3", three}} {
		for _, n := range of.scale.Networks {
			p := scalePart(of.name, of.scale, n)
			if p.goal = of.name; of.scale == two {
				p.goal += ", " + n.Name
			}
			parts = append(parts, p)
		}
	}
	return append(parts, s.figureParts()...)
}

// scalePart is a network of a Scale under the default convention.
func scalePart(table string, scale *cells.Scale, n *cells.Network) part {
	alone := scale.Standard()
	alone.Networks = slices.DeleteFunc(alone.Networks, func(other *cells.Network) bool { return other.ID != n.ID })
	p := part{table: table, network: n.Name, accelerator: n.Accelerator, reach: n.Reach}
	var at []lab.Cell
	for _, c := range alone.Cells() {
		if c != alone.Base {
			at = append(at, c)
			p.cells = append(p.cells, cell{fmt.Sprintf("K = %d, M = %d", c.K, c.M), n.Paper.Of(c).Value.Value, c.M == alone.M[len(alone.M)-1]})
		}
	}
	p.jobs = func(v accelerator.Variation) []lab.Job { return alone.Varied(v).OwnJobs() }
	p.values = func(log *records.Log, v accelerator.Variation) (values []float64, err error) {
		m, err := alone.Varied(v).ReadOwn(log)
		if err != nil {
			return nil, err
		}
		for _, c := range at {
			values = append(values, m.Throughput(m.Networks[0], m.ConventionsOf(m.Networks[0])[0], c))
		}
		return values, nil
	}
	return p
}

// figureParts are the networks of Figure 3.
func (s *sensitivity) figureParts() (parts []part) {
	for _, n := range s.figure3.Spec.Networks {
		p := part{table: "Figure 3", network: n.Name, accelerator: s.figure3.Accelerator()}
		for _, c := range n.Scenarios {
			if c.Name != n.Base {
				p.cells = append(p.cells, cell{c.Name, c.Paper.Value, true})
			}
		}
		p.jobs = s.figure3.ModelledJobs // of all its networks
		p.values = func(log *records.Log, v accelerator.Variation) (values []float64, err error) {
			cells, err := s.figure3.Modelled(log, v)
			for _, c := range cells {
				if c.Network == n.Name && !c.Base {
					values = append(values, c.Value)
				}
			}
			return values, err
		}
		parts = append(parts, p)
	}
	return parts
}

// assumption is one thing that may be otherwise.
type assumption struct {
	name      string
	published bool // it has a band
	low, high *accelerator.Variation
}

// assumptions are those about an accelerator: its bands, and then the others, each with
// one end.
func (s *sensitivity) assumptions(on string) (all []assumption) {
	a := lab.Named(accelerator.Named, on)
	for _, b := range a.Bands() {
		all = append(all, assumption{b.Name, true, b.Low, b.High})
	}
	for i := range s.others {
		all = append(all, assumption{name: s.others[i].Name, high: &s.others[i]})
	}
	return all
}

// ends are those that there are.
func (a assumption) ends() (ends []accelerator.Variation) {
	for _, v := range []*accelerator.Variation{a.low, a.high} {
		if v != nil {
			ends = append(ends, *v)
		}
	}
	return ends
}

func (s *sensitivity) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	for _, part := range s.parts() {
		jobs = append(jobs, part.jobs(accelerator.Variation{})...)
		for _, a := range s.assumptions(part.accelerator) {
			for _, v := range a.ends() {
				jobs = append(jobs, part.jobs(v)...)
			}
		}
	}
	return lab.MakeMissing(ctx, s.ID(), log, p, jobs)
}
