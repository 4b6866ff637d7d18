package figure3

import (
	"context"
	"fmt"

	"gpipebench/experiments/records"
	"gpipebench/experiments/simulation"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
)

// ModelledSpec is steps at the paper's own scale on modelled accelerators.
type ModelledSpec struct {
	Accelerator string `yaml:"accelerator" want:"accelerator"`
	DType       string `yaml:"dtype" want:"dtype"`
	Optimizer   string `yaml:"optimizer" want:"optimizer"`
	// Batch is a mini-batch that fits everywhere. Another step has the largest of
	// its multiples, up to Most, that fits that pipeline.
	Batch int `yaml:"batch"`
	Most  int `yaml:"most"`
}

// ModelledSample is what comes out for one pipeline. Nothing in it depends on
// the machine.
type ModelledSample struct {
	Batch         int     `json:"batch"`
	Seconds       float64 `json:"seconds"`
	Filled        int     `json:"filled_batch"` // 0: not even Batch fits
	FilledSeconds float64 `json:"filled_seconds"`
}

func ModelledName(run string) string { return "modelled/" + run }

// Measure adds the sample of a run if the log lacks it.
func (m ModelledSpec) Measure(ctx context.Context, log *records.Log, run string, model workload.Model, s workload.Setup) error {
	if log.Has(ModelledName(run)) {
		return nil
	}
	dtype, err := workload.ParseDType(m.DType)
	if err != nil {
		return err
	}
	simulate := func(batch int) (*simulation.Simulation, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := simulation.Simulating{Model: model, Setup: s, Accelerator: m.Accelerator, Batch: batch, Optimizer: m.Optimizer, DType: dtype}.Run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ModelledName(run), err)
		}
		return r, nil
	}
	fixed, err := simulate(m.Batch)
	if err != nil {
		return err
	}
	out := ModelledSample{Batch: m.Batch, Seconds: fixed.StepSeconds}
	// Multiples: fits does, not does not.
	fits, not := 0, m.Most/m.Batch+1
	for fits+1 < not {
		n := (fits + not) / 2
		r, err := simulate(n * m.Batch)
		if err != nil {
			return err
		}
		if !r.Fits {
			not = n
			continue
		}
		fits, out.Filled, out.FilledSeconds = n, n*m.Batch, r.StepSeconds
	}
	return log.Add(ModelledName(run), 0, out)
}

// throughput reads a run's modelled throughputs, in examples per second: with
// the fixed mini-batch, and with the one that fills memory, 0 if none fits.
func (m ModelledSpec) throughput(log *records.Log, run string) (fixed, filled float64, err error) {
	var s ModelledSample
	if err := log.Get(ModelledName(run), &s); err != nil {
		return 0, 0, err
	}
	fixed = float64(s.Batch) / s.Seconds
	if s.Filled > 0 {
		filled = float64(s.Filled) / s.FilledSeconds
	}
	return fixed, filled, nil
}

// Cells are a run's modelled throughputs relative to a base's.
func (m ModelledSpec) Cells(log *records.Log, base, run string) ([]suite.Value, error) {
	baseFixed, baseFilled, err := m.throughput(log, base)
	if err != nil {
		return nil, err
	}
	fixed, filled, err := m.throughput(log, run)
	if err != nil {
		return nil, err
	}
	out := []suite.Value{suite.Fixed(fixed/baseFixed, 2), suite.Absent}
	if filled > 0 && baseFilled > 0 {
		out[1] = suite.Fixed(filled/baseFilled, 2)
	}
	return out, nil
}

// modelledColumns are those of cells.
var modelledColumns = []string{"modelled, fixed batch", "modelled, memory filled"}

func (m ModelledSpec) caption() string {
	return fmt.Sprintf("Modelled: the paper's own network in %s on %s, a roofline for every operation, memory and links as planned, %s; with a mini-batch of %d throughout, and with the largest multiple of %d (up to %d) that fits the pipeline.",
		m.DType, m.Accelerator, m.Optimizer, m.Batch, m.Batch, m.Most)
}
