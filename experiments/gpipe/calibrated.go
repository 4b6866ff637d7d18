package gpipe

import (
	"context"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/records"
)

// calibratedSpec is the spec of calibrated.
type calibratedSpec struct {
	lab.Head    `yaml:",inline"`
	cells.Scale `yaml:",inline"`
	Elsewhere   []calibratee `yaml:"elsewhere"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
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

func (c *calibrated) Resolve() *lab.Problem { return c.Spec.Scale.Check() }

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
	elsewhere := &lab.Table{
		ID: c.ID(), Title: c.Spec.Title,
		Caption: []string{"Examples a second of one accelerator, without a pipeline and without recomputation. Calibrated on: one factor on the rates of memory and convolutions is what makes this row come out, so that its error shows nothing. Judged: nothing was fitted to it."},
	}
	elsewhere.Texts("network", "on")
	elsewhere.Numbers("batch", "measured", "modelled", "error")
	elsewhere.Texts("row is", "source of the measured value")
	for _, n := range c.Spec.Elsewhere {
		var s acceleratorStep
		if err := log.Get(n.cell("", false).Sample, &s); err != nil {
			return nil, err
		}
		elsewhere.Add(n.Name, n.Accelerator, n.Batch, lab.Fixed(n.Measured, 1), lab.Fixed(s.ExamplesPerSecond, 1), lab.Signed(s.ExamplesPerSecond/n.Measured-1),
			map[bool]string{true: "judged", false: "calibrated on"}[n.Judged], n.Origin)
	}
	m, err := c.Spec.Read(log)
	if err != nil {
		return nil, err
	}
	printed, conventions := m.Tables(c.ID()+"-table2", "Table 2, calibrated",
		"Source of the paper's values: "+c.Spec.Source+".",
		"The default convention was chosen after the conventions of table2-modelled had been compared with the paper, so that nearness here is weaker evidence than there.")
	return &lab.Report{Tables: []*lab.Table{elsewhere, printed, conventions}}, nil
}
