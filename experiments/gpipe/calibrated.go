package gpipe

import (
	"context"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
)

// calibratedSpec is the spec of calibrated.
type calibratedSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	cells.Scale                      `yaml:",inline"`
	Elsewhere                        []calibratee `yaml:"elsewhere"`
}

// calibratee is a network that others trained, which an accelerator was calibrated on or is judged by.
type calibratee struct {
	trainedElsewhere `yaml:",inline"`
	Judged           bool `yaml:"judged"`
}

// calibrated is Table 2 on accelerators that were calibrated on other networks. It has code of its own since
// it has the cells of a Scale and the throughput of networks elsewhere.
type calibrated struct {
	lab.Base[calibratedSpec]
}

func newCalibrated() (lab.Experiment, error) { return &calibrated{}, nil }

func (c *calibrated) Resolve() *lab.Problem {
	if p := c.Spec.Scale.Check(); p != nil {
		return p
	}
	return c.Spec.CheckForms(&c.Spec)
}

func (c *calibrated) Planned(string) []lab.PlannedRun { return c.Spec.Scale.Planned() }

func (c *calibrated) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	jobs := c.Spec.Scale.Jobs()
	for _, n := range c.Spec.Elsewhere {
		cell := n.cell("", false)
		jobs = append(jobs, lab.Making(cell.Sample, 0, cell.Make))
	}
	return lab.MakeMissing(ctx, c.ID(), log, p, jobs)
}

func (c *calibrated) Report(log, _ *records.Log) (*lab.Report, error) {
	var rows []shown.Values
	for _, n := range c.Spec.Elsewhere {
		var s acceleratorStep
		if err := log.Get(n.cell("", false).Sample, &s); err != nil {
			return nil, err
		}
		rows = append(rows, shown.Values{"network": n.Name, "on": n.Accelerator, "batch": n.Batch, "measured": n.Measured, "modelled": s.ExamplesPerSecond, "origin": n.Origin,
			"row": map[bool]string{true: "judged", false: "calibrated on"}[n.Judged]})
	}
	r, err := c.Spec.Spec.Report(c, "", shown.Showing{ID: c.ID(), Title: c.Title(), Data: &c.Spec, Rows: shown.Rows{"": rows}})
	if err != nil {
		return nil, err
	}
	m, err := c.Spec.Read(log)
	if err != nil {
		return nil, err
	}
	printed, conventions := m.Tables(c.ID()+"-table2", "Table 2, calibrated",
		"Source of the paper's values: "+c.Spec.Source+".",
		"The default convention was chosen after the conventions of table2-modelled had been compared with the paper, so agreement here is weaker evidence than there.")
	r.Tables = append(r.Tables, printed, conventions)
	return r, nil
}
