package gpipe

import (
	"strconv"

	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/simulate"
	"gpipebench/train"
)

type efficiencySpec struct {
	lab.Head    `yaml:",inline"`
	cells.Shown `yaml:",inline"`
	Within      float64            `yaml:"within" want:">0..1000"` // of what was measured, in percent
	Networks    []trainedElsewhere `yaml:"networks"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// trainedElsewhere is a network that others have trained, and how fast.
type trainedElsewhere struct {
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

// acceleratorStep is a modelled step.
type acceleratorStep struct {
	ExamplesPerSecond float64 `json:"examples_per_second"`
	PeakBytes         int64   `json:"peak_bytes"`
	Fits              bool    `json:"fits"`
}

// efficiency models networks at measured rates and at peak rates, which is why it needs code.
var efficiency = cells.Kind[efficiencySpec, acceleratorStep]{
	Planned: func(s *efficiencySpec) (list []lab.PlannedRun) {
		for i, n := range s.Networks {
			n.Model.Aux = 0 // the check is on one example, and the head's batch norm would see a single value of it
			list = append(list, lab.PlannedRun{Path: []string{"networks", strconv.Itoa(i), "model"}, Run: lab.ModelledRun{Model: n.Model, Most: 1}})
		}
		return list
	},
	Rows: func(s *efficiencySpec, _ string) (rows []cells.Row[acceleratorStep], err error) {
		for _, n := range s.Networks {
			rows = append(rows, cells.Row[acceleratorStep]{
				Has:   cells.Values{"network": n.Name, "on": n.Accelerator, "batch": n.Batch, "measured": n.Measured, "origin": n.Origin, "within": s.Within, "place": n.Name + ", " + n.Accelerator},
				Reads: []cells.Cell[acceleratorStep]{n.cell("of", false), n.cell("peak", true)},
			})
		}
		return rows, nil
	},
}

func (n trainedElsewhere) cell(as string, peak bool) cells.Cell[acceleratorStep] {
	return cells.Simulated(as, n.ID, simulate.Simulating{
		Model: n.Model, Accelerator: n.Accelerator, Peak: peak, Batch: n.Batch, Optimizer: n.Optimizer, DType: lab.Named(train.ParseDType, n.DType),
		Setup: train.Setup{Partitions: 1, MicroBatches: 1, Schedule: schedule.Naive, Checkpoint: schedule.Never},
	}, func(r *simulate.Simulation) acceleratorStep {
		return acceleratorStep{r.ExamplesPerSecond, r.Devices[0].PeakBytes, r.Fits}
	})
}
