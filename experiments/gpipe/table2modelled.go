package gpipe

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// modelledSpec is the spec of table2-modelled.
type modelledSpec struct {
	lab.Head    `yaml:",inline"`
	Torchgpipe  string `yaml:"torchgpipe" want:"shown"` // source of its values
	cells.Scale `yaml:",inline"`
	WhatIf      []string `yaml:"what_if" want:"optional"` // variations of accelerators at their peaks

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// table2Modelled is Table 2 at the paper's own scale, under every convention. It has code of its own
// since the networks of both tables are held to the same conventions.
type table2Modelled struct {
	lab.Base[modelledSpec]
	table3  *table3
	whatIfs []accelerator.Variation
}

func newTable2Modelled() (lab.Experiment, error) {
	other, err := another[*table3]("table3", newTable3)
	t := &table2Modelled{table3: other}
	t.Others = other.Decides
	return t, err
}

// ModelledTables are Table 2's and Table 3's networks and conventions, and what decides their
// samples in a profile.
func ModelledTables() (two, three *cells.Scale, decides func(profile string) string, err error) {
	t, err := another[*table2Modelled]("table2-modelled", newTable2Modelled)
	if err != nil {
		return nil, nil, nil, err
	}
	return &t.Spec.Scale, &t.table3.Spec.Scale, t.Decides, nil
}

func (t *table2Modelled) Resolve() *lab.Problem {
	if p := t.Spec.Scale.Check(); p != nil {
		return p
	}
	if !reflect.DeepEqual(t.Spec.Conventions, t.table3.Spec.Conventions) {
		return lab.At(errors.New("want those of table3's spec"), "conventions")
	}
	var p *lab.Problem
	t.whatIfs, p = variations("what_if", t.Spec.WhatIf)
	return p
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

func (t *table2Modelled) Planned(string) []lab.PlannedRun { return t.Spec.Scale.Planned() }

func (t *table2Modelled) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	for _, s := range []*cells.Scale{&t.Spec.Scale, &t.table3.Spec.Scale} {
		var whatIfs []*cells.Scale // of fewer cells
		for _, v := range t.whatIfs {
			whatIfs = append(whatIfs, s.WhatIf(v))
		}
		jobs = slices.Concat(jobs, s.Jobs(), cells.JobsOf(whatIfs...))
	}
	return lab.MakeMissing(ctx, t.ID(), log, p, jobs)
}

func (t *table2Modelled) Report(log, _ *records.Log) (*lab.Report, error) {
	two, err := t.Spec.Read(log)
	if err != nil {
		return nil, err
	}
	three, err := t.table3.Spec.Read(log)
	if err != nil {
		return nil, err
	}
	printed, conventions := two.Tables(t.ID(), "Table 2", "Source of the paper's values: "+t.Spec.Source+". torchgpipe: "+t.Spec.Torchgpipe+".")
	// What both tables were to reach.
	var goals []cells.Goal
	for _, n := range two.Networks {
		goals = append(goals, cells.Goal{Name: "Table 2, " + n.Name, Of: two, Networks: []*cells.Network{n}, Percent: n.Reach})
	}
	goals = append(goals, cells.Goal{Name: "Table 3", Of: three, Networks: three.Networks, Percent: three.Networks[0].Reach})
	whatIf, err := cells.WhatIfTable(log, t.ID()+"-what-if", t.whatIfs, goals)
	if err != nil {
		return nil, err
	}
	report := &lab.Report{Tables: []*lab.Table{printed, whatIf, conventions}}
	report.Files, err = plot.Figure(t, "", report.Tables, two.Panels())
	return report, err
}

// modelledBeside is one of Table 2's networks under the default convention, for the table in which
// it is measured at reduced scale.
type modelledBeside struct {
	*cells.Scale
	says func(profile string) string // what the spec says
}

// modelledNetwork finds a network by its id.
func modelledNetwork(id string) (modelledBeside, error) {
	t, err := another[*table2Modelled]("table2-modelled", newTable2Modelled)
	if err != nil {
		return modelledBeside{}, err
	}
	one := t.Spec.Standard()
	one.Networks = slices.DeleteFunc(one.Networks, func(n *cells.Network) bool { return n.ID != id })
	if len(one.Networks) != 1 {
		return modelledBeside{}, fmt.Errorf("table2-modelled: no network %q", id)
	}
	return modelledBeside{one, t.Says}, nil
}

// of is the network at the cells of another grid, beside the paper's values there.
func (b modelledBeside) of(g lab.Grid, paper lab.PaperCells) modelledBeside {
	s, n := *b.Scale, *b.Networks[0]
	n.Paper = paper
	s.Grid, s.Networks = g, []*cells.Network{&n}
	return modelledBeside{&s, b.says}
}

// check refuses cells that cannot be modelled.
func (b modelledBeside) check() *lab.Problem {
	if p := b.Scale.Check(); p != nil {
		return lab.At(fmt.Errorf("modelled beside: %w", p.Err), "m")
	}
	return nil
}

// Decides is what its samples depend on.
func (b modelledBeside) Decides(profile string) string { return b.says(profile) + lab.Figures(b.Scale) }

// modelledColumns are the columns of cells.
var modelledColumns = []string{"modelled", "modelled/paper", "at peak"}

// cells returns a function that makes a cell's throughput relative to the base's, that
// over the paper's, and the throughput at peak rates.
func (b modelledBeside) cells(log *records.Log) (func(lab.Cell) []lab.Value, error) {
	m, err := b.Read(log)
	if err != nil {
		return nil, err
	}
	n := b.Networks[0]
	standard := b.ConventionsOf(n)[0]
	atPeak, peak := m.Peak(n)
	return func(c lab.Cell) []lab.Value {
		got := m.Relative(n, standard, c)
		return []lab.Value{got.Value(), n.Paper.Of(c).Value.Under(got.X), atPeak.Relative(peak, standard, c).Value()}
	}, nil
}

func (b modelledBeside) caption() string {
	return fmt.Sprintf("Modelled on %s: %s. More in table2-modelled.", b.Networks[0].Accelerator, b.StandardCaption())
}
