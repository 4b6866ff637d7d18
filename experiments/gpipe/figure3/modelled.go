package figure3

import (
	"context"
	"fmt"

	"gpipebench/gpipe/accelerator"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/simulate"
	"gpipebench/train"
)

// modelledSpec is steps at the paper's own scale on modelled accelerators.
type modelledSpec struct {
	Accelerator string `yaml:"accelerator" want:"accelerator"`
	DType       string `yaml:"dtype" want:"dtype"`
	Optimizer   string `yaml:"optimizer" want:"optimizer"`
	// Batch is a mini-batch that fits everywhere. Another step has the largest of
	// its multiples, up to Most, that fits that pipeline.
	Batch int `yaml:"batch"`
	Most  int `yaml:"most"`
}

// modelledSample is the outcome of one pipeline. Nothing in it depends on the
// machine.
type modelledSample struct {
	Batch         int     `json:"batch"`
	Seconds       float64 `json:"seconds"`
	Filled        int     `json:"filled_batch"` // 0: not even Batch fits
	FilledSeconds float64 `json:"filled_seconds"`
}

// measured is what is assumed of accelerators; atPeak is at their peaks, with samples
// whose names do not say which efficiencies.
var measured, atPeak = accelerator.Variation{}, accelerator.Variation{Change: accelerator.AtPeak}

// name is that of a run's sample, with a variation of what is assumed of accelerators.
func (m modelledSpec) name(run string, v accelerator.Variation) string {
	name := "modelled/" + run
	if v.Name != "" {
		name += "/" + v.Name
	}
	return lab.AtRates(name, m.Accelerator, v.Change)
}

// job makes the sample of a run.
func (m modelledSpec) job(run string, model train.Model, s train.Setup, v accelerator.Variation) lab.Job {
	name := m.name(run, v)
	return lab.Job{Sample: name, Make: func(ctx context.Context) (any, string, error) {
		made, err := m.model(ctx, model, s, v)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		return made, name, nil
	}}
}

// model simulates a run with both mini-batches.
func (m modelledSpec) model(ctx context.Context, model train.Model, s train.Setup, v accelerator.Variation) (*modelledSample, error) {
	simulate := func(batch int) (*simulate.Simulation, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return simulate.Simulating{Model: model, Setup: s, Accelerator: m.Accelerator, Change: v.Change, Batch: batch, Optimizer: m.Optimizer, DType: lab.Named(train.ParseDType, m.DType)}.Run(ctx)
	}
	fixed, err := simulate(m.Batch)
	if err != nil {
		return nil, err
	}
	out := &modelledSample{Batch: m.Batch, Seconds: fixed.StepSeconds}
	for fits, not := 0, m.Most/m.Batch+1; fits+1 < not; { // multiples of Batch
		n := (fits + not) / 2
		r, err := simulate(n * m.Batch)
		if err != nil {
			return nil, err
		}
		if !r.Fits {
			not = n
			continue
		}
		fits, out.Filled, out.FilledSeconds = n, n*m.Batch, r.StepSeconds
	}
	return out, nil
}

// modelledColumns are those of cells.
var modelledColumns = []string{"modelled, fixed batch", "modelled, memory filled", "at peak, memory filled"}

// cells are a run's modelled throughputs relative to a base's: with the fixed
// mini-batch and with those that fill memory, if some fit both, and the latter at peak.
func (m modelledSpec) cells(log *records.Log, base, run string) ([]lab.Value, error) {
	cells, err := m.relative(log, base, run, measured)
	if err != nil {
		return nil, err
	}
	peak, err := m.relative(log, base, run, atPeak)
	if err != nil {
		return nil, err
	}
	return append(cells, peak[1]), nil
}

// relative are the first two of cells, with a variation of what is assumed.
func (m modelledSpec) relative(log *records.Log, base, run string, v accelerator.Variation) ([]lab.Value, error) {
	var b, s modelledSample
	if err := log.Get(m.name(base, v), &b); err != nil {
		return nil, err
	}
	if err := log.Get(m.name(run, v), &s); err != nil {
		return nil, err
	}
	relative := func(batch int, seconds float64, baseBatch int, baseSeconds float64) lab.Value {
		if batch == 0 || baseBatch == 0 {
			return lab.Absent
		}
		return lab.Fixed(float64(batch)/seconds/(float64(baseBatch)/baseSeconds), 2)
	}
	return []lab.Value{relative(s.Batch, s.Seconds, b.Batch, b.Seconds), relative(s.Filled, s.FilledSeconds, b.Filled, b.FilledSeconds)}, nil
}

func (m modelledSpec) caption() string {
	return fmt.Sprintf("Modelled: the paper's own network in %s on %s, a roofline for every operation at measured rates (at peak: at the accelerator's peak), memory and links as planned, %s; with a mini-batch of %d throughout, and with the largest multiple of %d (up to %d) that fits the pipeline.",
		m.DType, m.Accelerator, m.Optimizer, m.Batch, m.Batch, m.Most)
}

// Cell is one of the figure's, modelled with memory filled.
type Cell struct {
	Network, Scenario string
	Base              bool // 1 by definition
	Paper, Value      float64
}

// Accelerator is what the figure is modelled on.
func (f *Experiment) Accelerator() string { return f.Spec.Modelled.Accelerator }

// ModelledJobs make the samples of all cells, with a variation of what is assumed of the
// accelerator.
func (f *Experiment) ModelledJobs(v accelerator.Variation) []lab.Job { return f.Spec.jobs(v) }

func (f *spec) jobs(v accelerator.Variation) (jobs []lab.Job) {
	_ = f.each(func(_, _ int, n *network, s *scenario) error {
		jobs = append(jobs, f.Modelled.job(runName(n, s), n.Model, s.setup, v))
		return nil
	})
	return jobs
}

// Modelled reads all cells.
func (f *Experiment) Modelled(log *records.Log, v accelerator.Variation) (cells []Cell, err error) {
	err = f.Spec.each(func(_, _ int, n *network, s *scenario) error {
		relative, err := f.Spec.Modelled.relative(log, runName(n, n.base()), runName(n, s), v)
		if err != nil {
			return err
		}
		if len(relative[1].Numbers) == 0 {
			return fmt.Errorf("%s does not fit", runName(n, s))
		}
		cells = append(cells, Cell{n.Name, s.Name, s == n.base(), s.Paper.Value, relative[1].Numbers[0]})
		return nil
	})
	return cells, err
}
