// Package efficiency holds modelled accelerators against throughput that others have
// measured on such accelerators.
package efficiency

import (
	"context"
	"embed"
	"fmt"
	"math"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/simulate"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "efficiency", Folder: folder, New: lab.New[efficiency]}

// spec is spec.yaml.
type spec struct {
	lab.Head `yaml:",inline"`
	Within   float64   `yaml:"within" want:">0..1000"` // of what was measured, in percent
	Networks []network `yaml:"networks"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// network is a network that others have trained, and how fast.
type network struct {
	ID          string      `yaml:"id" want:"id,key"`
	Name        string      `yaml:"name" want:"name"`
	Model       train.Model `yaml:"model"`
	Accelerator string      `yaml:"accelerator" want:"accelerator"`
	DType       string      `yaml:"dtype" want:"dtype"`
	Optimizer   string      `yaml:"optimizer" want:"optimizer"`
	Batch       int         `yaml:"batch"`                   // of one accelerator
	Measured    float64     `yaml:"measured" want:">0..1e9"` // examples a second and accelerator
	Origin      string      `yaml:"origin"`                  // of Measured
}

// efficiency models networks at measured rates and at peak rates.
type efficiency struct {
	lab.Base[spec]
}

func (e *efficiency) Resolve() *lab.Problem { return nil }

func (e *efficiency) Planned(string) (list []lab.PlannedRun) {
	for i, n := range e.Spec.Networks {
		n.Model.Aux = 0 // the check is on one example, of which the head's batch norm sees a single value
		list = append(list, lab.PlannedRun{Path: []string{"networks", fmt.Sprint(i), "model"}, Run: lab.ModelledRun{Model: n.Model, Most: 1}})
	}
	return list
}

// sample is a modelled step. Nothing in it depends on the machine.
type sample struct {
	ExamplesPerSecond float64 `json:"examples_per_second"`
	PeakBytes         int64   `json:"peak_bytes"`
	Fits              bool    `json:"fits"`
}

// name is that of a network's sample, at peak or at measured rates.
func (n *network) name(peak bool) string {
	if peak {
		return n.ID
	}
	return lab.AtRates(n.ID, n.Accelerator, nil)
}

func (e *efficiency) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	p.Begin(e.ID(), 2*len(e.Spec.Networks))
	defer p.End()
	for _, n := range e.Spec.Networks {
		for _, peak := range []bool{false, true} {
			name := n.name(peak)
			if log.Has(name) {
				continue
			}
			r, err := simulate.Simulating{
				Model: n.Model, Accelerator: n.Accelerator, Peak: peak, Batch: n.Batch, Optimizer: n.Optimizer, DType: lab.Named(train.ParseDType, n.DType),
				Setup: train.Setup{Partitions: 1, MicroBatches: 1, Schedule: schedule.Naive, Checkpoint: schedule.Never},
			}.Run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := log.Add(name, 0, sample{r.ExamplesPerSecond, r.Devices[0].PeakBytes, r.Fits}); err != nil {
				return err
			}
			p.Advance(name)
		}
	}
	return nil
}

func (e *efficiency) Report(log, _ *records.Log) (*lab.Report, error) {
	table := &lab.Table{
		ID: e.ID(), Title: e.Spec.Title,
		Caption: []string{
			fmt.Sprintf("Examples a second of one accelerator, without a pipeline and without recomputation. Modelled: the shares of the peaks that others have published for kinds of operations (gpipe/accelerators), which were fixed before; nothing was fitted to these rows. At peak: every operation at its peak, the plain roofline. Holds: modelled within %v%% of measured.", e.Spec.Within),
			"Memory is planned as for training here, with every activation kept, and an asterisk marks a plan above the accelerator's memory; a compiler that recomputes some activations needs less.",
		},
	}
	table.Texts("network", "on")
	table.Numbers("batch", "measured", "modelled", "error", "at peak", "error at peak", "memory")
	table.Texts("holds", "source of the measured value")
	panel := &plot.BarPanel{Title: "throughput, measured = 1", Y: "modelled / measured", Series: []plot.BarSeries{{Name: "at measured rates"}, {Name: "at peak rates"}}}
	held := 0
	for _, n := range e.Spec.Networks {
		var modelled, peak sample
		if err := log.Get(n.name(false), &modelled); err != nil {
			return nil, err
		}
		if err := log.Get(n.name(true), &peak); err != nil {
			return nil, err
		}
		off := func(s sample) float64 { return s.ExamplesPerSecond/n.Measured - 1 }
		holds := "no"
		if 100*math.Abs(off(modelled)) <= e.Spec.Within {
			holds = "yes"
			held++
		}
		memory := lab.Bytes(modelled.PeakBytes)
		if !modelled.Fits {
			memory = lab.Joined("%v *", memory)
		}
		table.Add(n.Name, n.Accelerator, n.Batch, lab.Fixed(n.Measured, 1), lab.Fixed(modelled.ExamplesPerSecond, 1), lab.Signed(off(modelled)),
			lab.Fixed(peak.ExamplesPerSecond, 1), lab.Signed(off(peak)), memory, holds, n.Origin)
		panel.Names = append(panel.Names, n.Name+", "+n.Accelerator)
		panel.Series[0].Add(1 + off(modelled))
		panel.Series[1].Add(1 + off(peak))
	}
	table.Notes = []string{fmt.Sprintf("Within %v%%: %d of %d.", e.Spec.Within, held, len(e.Spec.Networks))}
	files, err := plot.Files(e.ID(), e.Spec.Title, []plot.Axes{panel})
	return &lab.Report{Tables: []*lab.Table{table}, Files: files}, err
}
