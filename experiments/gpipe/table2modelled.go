package gpipe

import (
	"context"
	"fmt"
	"slices"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
)

// modelledSpec is the spec of table2-modelled.
type modelledSpec struct {
	lab.Head    `yaml:",inline"`
	Torchgpipe  string `yaml:"torchgpipe" want:"shown"` // source of its values
	cells.Scale `yaml:",inline"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// table2Modelled is Table 2 at the paper's own scale, under every convention.
type table2Modelled struct {
	lab.Base[modelledSpec]
}

func newTable2Modelled() (lab.Experiment, error) { return &table2Modelled{}, nil }

// ModelledTables are Table 2's and Table 3's networks and conventions, which others model as well, and what decides their
// samples in a profile.
func ModelledTables() (two, three *cells.Scale, decides func(profile string) string, err error) {
	of, err := another[*table2Modelled]("table2-modelled", newTable2Modelled)
	if err != nil {
		return nil, nil, nil, err
	}
	other, err := another[*table3]("table3", newTable3)
	if err != nil {
		return nil, nil, nil, err
	}
	return &of.Spec.Scale, &other.Spec.Scale, func(profile string) string { return of.Decides(profile) + other.Decides(profile) }, nil
}

func (t *table2Modelled) Resolve() *lab.Problem { return t.Spec.Scale.Check() }

func (t *table2Modelled) Planned(string) []lab.PlannedRun { return t.Spec.Scale.Planned() }

func (t *table2Modelled) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return lab.MakeMissing(ctx, t.ID(), log, p, t.Spec.Scale.Jobs())
}

func (t *table2Modelled) Report(log, _ *records.Log) (*lab.Report, error) {
	m, err := t.Spec.Read(log)
	if err != nil {
		return nil, err
	}
	printed, conventions := m.Tables(t.ID(), "Table 2", "Source of the paper's values: "+t.Spec.Source+". torchgpipe: "+t.Spec.Torchgpipe+".")
	report := &lab.Report{Tables: []*lab.Table{printed, conventions}}
	report.Files, err = plot.Figure(t, "", report.Tables, m.Panels())
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

// cells returns a function that makes a row of a cell: what the paper has, and the throughput relative to the
// base's, at measured and at peak rates.
func (b modelledBeside) cells(log *records.Log) (func(lab.Cell) shown.Values, error) {
	m, err := b.Read(log)
	if err != nil {
		return nil, err
	}
	n := b.Networks[0]
	standard := b.ConventionsOf(n)[0]
	atPeak, peak := m.Peak(n)
	return func(c lab.Cell) shown.Values {
		return shown.Values{
			"K": c.K, "M": c.M, "paper": n.Paper.Of(c).Value,
			"modelled": m.Relative(n, standard, c).Value(), "peak": atPeak.Relative(peak, standard, c).Value(),
		}
	}, nil
}

func (b modelledBeside) caption() string {
	return fmt.Sprintf("Modelled on %s: %s. More in table2-modelled.", b.Networks[0].Accelerator, b.StandardCaption())
}
