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
	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "table2-modelled", Folder: folder, New: load, Command: "table2"}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	Torchgpipe  string `yaml:"torchgpipe" want:"shown"` // source of its values
	cells.Scale `yaml:",inline"`
	WhatIf      []string `yaml:"what_if" want:"optional"` // variations of accelerators at their peaks

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// Experiment is Table 2 at the paper's own scale.
type Experiment struct {
	lab.Base[spec]
	table3  *table3.Experiment // whose networks are held to the same conventions
	whatIfs []accelerator.Variation
}

func load() (lab.Experiment, error) {
	other, err := table3.Definition.Load()
	if err != nil {
		return nil, err
	}
	t := &Experiment{table3: other.(*table3.Experiment)}
	t.Others = t.table3.Decides
	return t, nil
}

func (t *Experiment) Resolve() *lab.Problem {
	if p := t.Spec.Scale.Check(); p != nil {
		return p
	}
	if !reflect.DeepEqual(t.Spec.Conventions, t.table3.Spec.Conventions) {
		return lab.At(errors.New("want those of table3's spec"), "conventions")
	}
	t.whatIfs = nil
	for _, name := range t.Spec.WhatIf {
		v, err := accelerator.ParseVariation(name)
		if err != nil {
			return lab.At(err, "what_if")
		}
		t.whatIfs = append(t.whatIfs, v)
	}
	return nil
}

func (t *Experiment) Planned(string) []lab.PlannedRun { return t.Spec.Scale.Planned() }

func (t *Experiment) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	for _, s := range []*cells.Scale{&t.Spec.Scale, &t.table3.Spec.Scale} {
		jobs = append(jobs, s.Jobs()...)
		for _, v := range t.whatIfs {
			jobs = append(jobs, s.WhatIf(v).OwnJobs()...)
		}
	}
	return lab.MakeMissing(ctx, t.ID(), log, p, jobs)
}

func (t *Experiment) Report(log, _ *records.Log) (*lab.Report, error) {
	own, err := t.Spec.Read(log)
	if err != nil {
		return nil, err
	}
	other, err := t.table3.Spec.Read(log)
	if err != nil {
		return nil, err
	}
	printed, conventions := own.Tables(t.ID(), "Table 2", []string{
		"Source of the paper's values: " + t.Spec.Source + ". torchgpipe: " + t.Spec.Torchgpipe + ".",
	})
	goals := t.Goals(own, other)
	whatIf, err := cells.WhatIfTable(log, t.ID()+"-what-if", t.whatIfs, goals)
	if err != nil {
		return nil, err
	}
	report := &lab.Report{Tables: slices.Concat(printed, []*lab.Table{cells.ErrorTable(t.ID()+"-errors", goals), whatIf}, conventions)}
	report.Files, err = plot.Files(t.ID(), t.Spec.Title, own.Panels())
	return report, err
}

// Scales are Table 2's and Table 3's networks and conventions.
func (t *Experiment) Scales() (two, three *cells.Scale) {
	return &t.Spec.Scale, &t.table3.Spec.Scale
}

// Goals are what both tables were to reach.
func (t *Experiment) Goals(two, three *cells.Modelled) (goals []cells.Goal) {
	for _, n := range two.Networks {
		goals = append(goals, cells.Goal{Name: "Table 2, " + n.Name, Of: two, Networks: []*cells.Network{n}, Percent: n.Reach})
	}
	return append(goals, cells.Goal{Name: "Table 3", Of: three, Networks: three.Networks, Percent: three.Networks[0].Reach})
}

// Beside is one of the spec's networks under the default convention, for the table
// in which it is measured at reduced scale.
type Beside struct {
	*cells.Scale
	says func(profile string) string // what the spec says
}

// Network finds a network by its id.
func Network(id string) (Beside, error) {
	e, err := Definition.Load()
	if err != nil {
		return Beside{}, err
	}
	one := e.(*Experiment).Spec.Standard()
	one.Networks = slices.DeleteFunc(one.Networks, func(n *cells.Network) bool { return n.ID != id })
	if len(one.Networks) != 1 {
		return Beside{}, fmt.Errorf("table2-modelled: no network %q", id)
	}
	return Beside{one, e.(*Experiment).Says}, nil
}

// Decides is what its samples depend on.
func (b Beside) Decides(profile string) string { return b.says(profile) + lab.Figures(b.Scale) }

// Columns are those of Cells.
var Columns = []string{"modelled", "modelled/paper", "at peak"}

// Cells returns a function that makes a cell's throughput relative to the base's, that
// over the paper's, and the throughput at peak rates. Of a cell that is not among the spec's
// they are absent: the table beside may have others.
func (b Beside) Cells(log *records.Log) (func(lab.Cell) []lab.Value, error) {
	m, err := b.Read(log)
	if err != nil {
		return nil, err
	}
	n := b.Networks[0]
	standard := b.ConventionsOf(n)[0]
	atPeak, peak := m.Peak(n)
	return func(c lab.Cell) []lab.Value {
		if !slices.Contains(b.Scale.Cells(), c) {
			return slices.Repeat([]lab.Value{lab.Absent}, len(Columns))
		}
		got := m.Throughput(n, standard, c)
		return []lab.Value{lab.Fixed(got, 2), lab.Fixed(got/n.Paper.Of(c).Value.Value, 2), lab.Fixed(atPeak.Throughput(peak, standard, c), 2)}
	}, nil
}

func (b Beside) Caption() string {
	return fmt.Sprintf("Modelled on %s: %s. More in table2-modelled-%s.", b.Networks[0].Accelerator, b.StandardCaption(), b.Networks[0].ID)
}
