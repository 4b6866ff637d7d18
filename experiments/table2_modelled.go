package experiments

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// expectedOnly is a profile of an experiment that has one size.
type expectedOnly struct {
	Expected span `yaml:"expected"`
}

// table2ModelledSpec is table2_modelled.yaml.
type table2ModelledSpec struct {
	head       `yaml:",inline"`
	Torchgpipe string `yaml:"torchgpipe"` // source of its values
	paperScale `yaml:",inline"`
	WhatIf     []string `yaml:"what_if" want:"optional"` // names of whatIfs

	Profiles map[string]expectedOnly `yaml:"profiles"`
}

// table2Modelled is Table 2 at the paper's own scale.
type table2Modelled struct {
	spec   table2ModelledSpec
	text   string
	table3 *table3 // whose networks are held to the same conventions
}

func loadTable2Modelled(from ...SpecFile) (Experiment, error) {
	t := &table2Modelled{table3: &table3{}}
	var err error
	if t.table3.text, err = loadSpec("table3.yaml", nil, &t.table3.spec, t.table3.check); err != nil {
		return nil, err
	}
	t.text, err = loadSpec("table2_modelled.yaml", from, &t.spec, t.check)
	return t, err
}

func (t *table2Modelled) check() *specProblem {
	if p := t.spec.paperScale.check(); p != nil {
		return p
	}
	if !reflect.DeepEqual(t.spec.Conventions, t.table3.spec.Conventions) {
		return at(errors.New("want those of table3.yaml"), "conventions")
	}
	if err := checkWhatIfs(t.spec.WhatIf); err != nil {
		return at(err, "what_if")
	}
	return checkProfiles(t.spec.Profiles)
}

func (t *table2Modelled) ID() string    { return t.spec.Experiment }
func (t *table2Modelled) Title() string { return t.spec.Title }

func (t *table2Modelled) Expected(profile string) time.Duration {
	return time.Duration(t.spec.Profiles[profile].Expected)
}

func (t *table2Modelled) Key(profile string) Key {
	return key(t.ID(), profile, t.text+t.spec.accelerators()+t.table3.text+t.table3.spec.accelerators())
}

func (t *table2Modelled) Measure(ctx context.Context, log *Log, p Progress) error {
	if err := t.spec.measure(ctx, log, p); err != nil {
		return err
	}
	if err := t.table3.spec.measure(ctx, log, p); err != nil {
		return err
	}
	for _, name := range t.spec.WhatIf {
		for _, s := range []*paperScale{&t.spec.paperScale, &t.table3.spec.paperScale} {
			if err := s.what(name).measure(ctx, log, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *table2Modelled) Report(log, _ *Log) (*Report, error) {
	cells, conventions, err := t.spec.tables(log, t.ID(), "Table 2", []string{
		"Source of the paper's values: " + t.spec.Source + ". torchgpipe: " + t.spec.Torchgpipe + ".",
	})
	if err != nil {
		return nil, err
	}
	var goals []scaleGoal
	for _, n := range t.spec.Networks {
		goals = append(goals, scaleGoal{"Table 2, " + n.Name, &t.spec.paperScale, []*scaleNetwork{n}, n.Reach})
	}
	other := &t.table3.spec.paperScale
	goals = append(goals, scaleGoal{"Table 3", other, other.Networks, other.Networks[0].Reach})
	all, err := errorTable(log, t.ID()+"-errors", goals)
	if err != nil {
		return nil, err
	}
	hang, err := whatIfTable(log, t.ID()+"-what-if", t.spec.WhatIf, goals)
	if err != nil {
		return nil, err
	}
	panels, err := t.spec.panels(log)
	if err != nil {
		return nil, err
	}
	report := &Report{Tables: slices.Concat(cells, []*Table{all, hang}, conventions)}
	report.Files, err = plotFiles(t.ID(), t.spec.Title, panels)
	return report, err
}

// modelledBeside is one of table2_modelled.yaml's networks under the default
// convention, for the table in which it is measured at reduced scale.
type modelledBeside struct {
	*paperScale
	spec string // the file's text
}

func loadModelledBeside(id string) (modelledBeside, error) {
	e, err := loadTable2Modelled()
	if err != nil {
		return modelledBeside{}, err
	}
	t := e.(*table2Modelled)
	one := t.spec.standard()
	one.Networks = slices.DeleteFunc(one.Networks, func(n *scaleNetwork) bool { return n.ID != id })
	if len(one.Networks) != 1 {
		return modelledBeside{}, fmt.Errorf("table2_modelled.yaml: no network %q", id)
	}
	return modelledBeside{one, t.text}, nil
}

// key is what its samples hang on.
func (m modelledBeside) key() string { return m.spec + m.accelerators() }

// besideColumns are those of cells.
var besideColumns = []Column{{Name: "modelled"}, {Name: "modelled/paper"}}

// cells are a cell's throughput relative to the base's, and that beside the paper's.
func (m modelledBeside) cells(log *Log, c cell) ([]string, error) {
	n := m.Networks[0]
	got, err := m.throughput(log, n, m.conventions(n)[0], c, false)
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("%.2f", got), fmt.Sprintf("%.2f", got/n.paper(c).Value.Value)}, nil
}

func (m modelledBeside) caption() string {
	return fmt.Sprintf("Modelled on %s: %s. More in table2-modelled-%s.", m.Networks[0].Accelerator, m.standardCaption(), m.Networks[0].ID)
}
