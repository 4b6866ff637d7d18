package experiments

import (
	"context"
	"fmt"
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

// modelledSample is what comes out for one pipeline. Nothing in it depends on
// the machine.
type modelledSample struct {
	Batch         int     `json:"batch"`
	Seconds       float64 `json:"seconds"`
	Filled        int     `json:"filled_batch"` // 0: not even Batch fits
	FilledSeconds float64 `json:"filled_seconds"`
}

func modelledName(run string) string { return "modelled/" + run }

// measure adds the sample of a run if the log lacks it.
func (m modelledSpec) measure(ctx context.Context, log *Log, run string, model Model, s Setup) error {
	if log.Has(modelledName(run)) {
		return nil
	}
	dtype, err := ParseDType(m.DType)
	if err != nil {
		return err
	}
	simulate := func(batch int) (*Simulation, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := Simulating{Model: model, Setup: s, Accelerator: m.Accelerator, Batch: batch, Optimizer: m.Optimizer, DType: dtype}.Run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", modelledName(run), err)
		}
		return r, nil
	}
	fixed, err := simulate(m.Batch)
	if err != nil {
		return err
	}
	out := modelledSample{Batch: m.Batch, Seconds: fixed.StepSeconds}
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
	return log.Add(modelledName(run), 0, out)
}

// throughput reads a run's modelled throughputs, in examples per second: with
// the fixed mini-batch, and with the one that fills memory, 0 if none fits.
func (m modelledSpec) throughput(log *Log, run string) (fixed, filled float64, err error) {
	var s modelledSample
	if err := log.Get(modelledName(run), &s); err != nil {
		return 0, 0, err
	}
	fixed = float64(s.Batch) / s.Seconds
	if s.Filled > 0 {
		filled = float64(s.Filled) / s.FilledSeconds
	}
	return fixed, filled, nil
}

// cells are a run's modelled throughputs relative to a base's.
func (m modelledSpec) cells(log *Log, base, run string) ([]string, error) {
	baseFixed, baseFilled, err := m.throughput(log, base)
	if err != nil {
		return nil, err
	}
	fixed, filled, err := m.throughput(log, run)
	if err != nil {
		return nil, err
	}
	out := []string{fmt.Sprintf("%.2f", fixed/baseFixed), "-"}
	if filled > 0 && baseFilled > 0 {
		out[1] = fmt.Sprintf("%.2f", filled/baseFilled)
	}
	return out, nil
}

// modelledColumns are those of cells.
var modelledColumns = []Column{{Name: "modelled, fixed batch"}, {Name: "modelled, memory filled"}}

func (m modelledSpec) caption() string {
	return fmt.Sprintf("Modelled: the paper's own network in %s on %s, a roofline for every operation, memory and links as planned, %s; with a mini-batch of %d throughout, and with the largest multiple of %d (up to %d) that fits the pipeline.",
		m.DType, m.Accelerator, m.Optimizer, m.Batch, m.Batch, m.Most)
}
