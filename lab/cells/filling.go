package cells

import (
	"cmp"
	"context"
	"fmt"

	"gpipebench/gpipe/accelerator"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// Filling models pipelines of the paper's own networks on an accelerator, with a mini-batch that fits everywhere,
// and with the largest of its multiples that fits each.
type Filling struct {
	Accelerator string `yaml:"accelerator" want:"accelerator"`
	DType       string `yaml:"dtype" want:"dtype"`
	Optimizer   string `yaml:"optimizer" want:"optimizer"`
	Batch       int    `yaml:"batch"` // examples that fit everywhere
	Most        int    `yaml:"most"`  // examples of the largest multiple
}

// FillingStep is the outcome of one pipeline. Nothing in it depends on the machine.
type FillingStep struct {
	Batch         int     `json:"batch"`
	Seconds       float64 `json:"seconds"`
	Filled        int     `json:"filled_batch"` // 0: not even Batch fits
	FilledSeconds float64 `json:"filled_seconds"`
}

// Check refuses a largest mini-batch below the one that fits everywhere.
func (f Filling) Check() *lab.Problem {
	if f.Most < f.Batch {
		return lab.At(fmt.Errorf("at most %d examples: want %d or more", f.Most, f.Batch), "most")
	}
	return nil
}

// Sample names a run's sample, with a variation of what is assumed of the accelerator.
func (f Filling) Sample(run string, v accelerator.Variation) string {
	name := "modelled/" + run
	if v.Name != "" {
		name += "/" + v.Name
	}
	return lab.AtRates(name, f.Accelerator, v.Change)
}

// Modellers returns the Modellers of a network in the order of a setup, one for each variation.
func (f Filling) Modellers(varied []accelerator.Variation) func(train.Model, train.Setup) func() ([]*Modeller, error) {
	made := map[string]func() ([]*Modeller, error){}
	return func(model train.Model, s train.Setup) func() ([]*Modeller, error) {
		order := train.Setup{Schedule: s.Schedule, Checkpoint: s.Checkpoint}
		key := fmt.Sprint(model, order.Schedule, order.Checkpoint)
		if made[key] == nil {
			var networks []*Network
			for _, v := range varied {
				networks = append(networks, &Network{On: On{model, f.Accelerator, f.DType, f.Optimizer}, Change: v.Change})
			}
			made[key] = ModellersOf(false, &order, networks...)
		}
		return made[key]
	}
}

// Job makes the sample of a run with a variation, by the Modeller of its number.
func (f Filling) Job(run string, s train.Setup, v accelerator.Variation, modellers func() ([]*Modeller, error), n int) lab.Job {
	return lab.Making(f.Sample(run, v), 0, func(ctx context.Context) (*FillingStep, error) {
		on, err := modellers()
		if err != nil {
			return nil, err
		}
		return f.step(ctx, on[n], s)
	})
}

// step simulates a run with both mini-batches.
func (f Filling) step(ctx context.Context, on *Modeller, s train.Setup) (*FillingStep, error) {
	simulated := func(batch int) (*Step, float64, error) {
		micro := batch / s.MicroBatches
		sizes, err := on.Cut(ctx, s, s.Partitions, micro)
		if err != nil {
			return nil, 0, err
		}
		return on.Guess(ctx, sizes, micro, s.MicroBatches)
	}
	fixed, fill, err := simulated(f.Batch)
	if err != nil {
		return nil, err
	}
	out := &FillingStep{Batch: f.Batch, Seconds: fixed.Early}
	multiples := make([]int, f.Most/f.Batch)
	for i := range multiples {
		multiples[i] = (i + 1) * f.Batch
	}
	guess := min(max(int(fill*float64(s.MicroBatches))/f.Batch, 1), len(multiples)) - 1
	largest, err := FindBorder(multiples, guess, func(batch int) (bool, error) {
		step, _, err := simulated(batch)
		return err == nil && step.Fits, err
	})
	if err != nil || largest.Fits == 0 {
		return out, err
	}
	filled, _, err := simulated(largest.Fits)
	if err == nil {
		out.Filled, out.FilledSeconds = largest.Fits, filled.Early
	}
	return out, err
}

// Relative are a run's throughputs relative to a base's, with a variation: with the fixed mini-batch,
// and with those that fill memory if some fit both.
func (f Filling) Relative(log *records.Log, base, run string, v accelerator.Variation) ([]lab.Value, error) {
	var b, s FillingStep
	if err := cmp.Or(log.Get(f.Sample(base, v), &b), log.Get(f.Sample(run, v), &s)); err != nil {
		return nil, err
	}
	filled := lab.Absent
	if s.Filled > 0 && b.Filled > 0 {
		filled = lab.Fixed(float64(s.Filled)/s.FilledSeconds/(float64(b.Filled)/b.FilledSeconds), 2)
	}
	fixed := lab.Fixed(float64(s.Batch)/s.Seconds/(float64(b.Batch)/b.Seconds), 2)
	return []lab.Value{lab.Starred(fixed, s.Filled > 0 && b.Filled > 0), filled}, nil
}
