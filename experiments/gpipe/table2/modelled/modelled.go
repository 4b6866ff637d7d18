// Package modelled has Tables 2 and 3 at the paper's scale, under every convention.
package modelled

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"gpipebench/experiments/gpipe/table3"
	"gpipebench/experiments/paperscale"
	"gpipebench/experiments/plot"
	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "table2-modelled", Folder: folder, New: load, Command: "table2"}

func (t *Table2Modelled) Planned(string) []suite.PlannedRun { return t.Spec.Scale.Planned() }

// table2ModelledSpec is spec.yaml.
type table2ModelledSpec struct {
	suite.Head       `yaml:",inline"`
	Torchgpipe       string `yaml:"torchgpipe"` // source of its values
	paperscale.Scale `yaml:",inline"`
	WhatIf           []string `yaml:"what_if" want:"optional"` // names of whatIfs

	Profiles map[string]suite.ExpectedOnly `yaml:"profiles"`
}

// Table2Modelled is Table 2 at the paper's own scale.
type Table2Modelled struct {
	suite.Base[table2ModelledSpec]
	Table3 *table3.Table3 // whose networks are held to the same conventions
}

func load() (suite.Experiment, error) {
	other, err := table3.Definition.Load()
	if err != nil {
		return nil, err
	}
	t := &Table2Modelled{Table3: other.(*table3.Table3)}
	t.Others = t.Table3.Decides
	return t, nil
}

func (t *Table2Modelled) Resolve() *suite.Problem {
	if p := t.Spec.Scale.Check(); p != nil {
		return p
	}
	if !reflect.DeepEqual(t.Spec.Conventions, t.Table3.Spec.Conventions) {
		return suite.At(errors.New("want those of table3's spec"), "conventions")
	}
	if err := paperscale.CheckWhatIfs(t.Spec.WhatIf); err != nil {
		return suite.At(err, "what_if")
	}
	return nil
}

func (t *Table2Modelled) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	if err := t.Spec.Measure(ctx, log, p); err != nil {
		return err
	}
	if err := t.Table3.Spec.Measure(ctx, log, p); err != nil {
		return err
	}
	for _, name := range t.Spec.WhatIf {
		for _, s := range []*paperscale.Scale{&t.Spec.Scale, &t.Table3.Spec.Scale} {
			if err := s.What(name).Measure(ctx, log, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Table2Modelled) Report(log, _ *records.Log) (*suite.Report, error) {
	cells, conventions, err := t.Spec.Tables(log, t.ID(), "Table 2", []string{
		"Source of the paper's values: " + t.Spec.Source + ". torchgpipe: " + t.Spec.Torchgpipe + ".",
	})
	if err != nil {
		return nil, err
	}
	var goals []paperscale.Goal
	for _, n := range t.Spec.Networks {
		goals = append(goals, paperscale.Goal{Name: "Table 2, " + n.Name, Of: &t.Spec.Scale, Networks: []*paperscale.Network{n}, Percent: n.Reach})
	}
	other := &t.Table3.Spec.Scale
	goals = append(goals, paperscale.Goal{Name: "Table 3", Of: other, Networks: other.Networks, Percent: other.Networks[0].Reach})
	all, err := paperscale.ErrorTable(log, t.ID()+"-errors", goals)
	if err != nil {
		return nil, err
	}
	hang, err := paperscale.WhatIfTable(log, t.ID()+"-what-if", t.Spec.WhatIf, goals)
	if err != nil {
		return nil, err
	}
	panels, err := t.Spec.Panels(log)
	if err != nil {
		return nil, err
	}
	report := &suite.Report{Tables: slices.Concat(cells, []*suite.Table{all, hang}, conventions)}
	report.Files, err = plot.Files(t.ID(), t.Spec.Title, panels)
	return report, err
}

// ModelledBeside is one of the spec's networks under the default convention, for
// the table in which it is measured at reduced scale.
type ModelledBeside struct{ *paperscale.Scale }

// Beside finds a network by its id.
func Beside(id string) (ModelledBeside, error) {
	e, err := Definition.Load()
	if err != nil {
		return ModelledBeside{}, err
	}
	one := e.(*Table2Modelled).Spec.Standard()
	one.Networks = slices.DeleteFunc(one.Networks, func(n *paperscale.Network) bool { return n.ID != id })
	if len(one.Networks) != 1 {
		return ModelledBeside{}, fmt.Errorf("table2-modelled: no network %q", id)
	}
	return ModelledBeside{one}, nil
}

// Decides is what its samples depend on.
func (m ModelledBeside) Decides() string { return Definition.Spec() + suite.Figures(m.Scale) }

// BesideColumns are those of cells.
var BesideColumns = []string{"modelled", "modelled/paper"}

// Cells are a cell's throughput relative to the base's, and that beside the paper's.
func (m ModelledBeside) Cells(log *records.Log, c suite.Cell) ([]suite.Value, error) {
	n := m.Networks[0]
	got, err := m.Throughput(log, n, m.ConventionsOf(n)[0], c, false)
	if err != nil {
		return nil, err
	}
	return []suite.Value{suite.Fixed(got, 2), suite.Fixed(got/n.Paper.Of(c).Value.Value, 2)}, nil
}

func (m ModelledBeside) Caption() string {
	return fmt.Sprintf("Modelled on %s: %s. More in table2-modelled-%s.", m.Networks[0].Accelerator, m.StandardCaption(), m.Networks[0].ID)
}
