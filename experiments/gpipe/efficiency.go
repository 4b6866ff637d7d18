package gpipe

import (
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/simulate"
	"gpipebench/train"
)

type efficiencySpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	Within                           float64            `yaml:"within" want:">0..1000"` // of what was measured, in percent
	Networks                         []trainedElsewhere `yaml:"networks"`
}

// trainedElsewhere is a network that others have trained, and how fast.
type trainedElsewhere struct {
	ID       string `yaml:"id" want:"id,key"`
	Name     string `yaml:"name" want:"name"`
	cells.On `yaml:",inline"`
	Batch    int     `yaml:"batch"`                   // of one accelerator
	Measured float64 `yaml:"measured" want:">0..1e9"` // examples a second and accelerator
	Origin   string  `yaml:"origin"`                  // of Measured
}

// acceleratorStep is a modelled step.
type acceleratorStep struct {
	ExamplesPerSecond float64 `json:"examples_per_second"`
	PeakBytes         int64   `json:"peak_bytes"`
	Fits              bool    `json:"fits"`
}

// efficiency models networks at measured rates and at peak rates, which is why it needs code.
var efficiency = cells.Kind[efficiencySpec, acceleratorStep]{
	Planned: func(s *efficiencySpec) []lab.PlannedRun {
		return lab.PlannedNetworks(s.Networks, func(n trainedElsewhere) lab.ModelledRun {
			n.Model.Aux = 0 // the check is on one example, and the head's batch norm would see a single value of it
			return lab.ModelledRun{Model: n.Model, Most: 1}
		})
	},
	Rows: func(s *efficiencySpec, _ string) (rows []cells.Row[acceleratorStep], err error) {
		for _, n := range s.Networks {
			rows = append(rows, cells.Row[acceleratorStep]{
				Has:   shown.Values{"network": n.Name, "on": n.Accelerator, "batch": n.Batch, "measured": n.Measured, "origin": n.Origin, "within": s.Within, "place": n.Name + ", " + n.Accelerator},
				Reads: []cells.Cell[acceleratorStep]{n.cell("of", false), n.cell("peak", true)},
			})
		}
		return rows, nil
	},
}

func (n trainedElsewhere) cell(as string, peak bool) cells.Cell[acceleratorStep] {
	sim := n.Simulating(n.Batch, train.Setup{Partitions: 1, MicroBatches: 1, Schedule: schedule.Naive, Checkpoint: schedule.Never})
	sim.Peak = peak
	return cells.Simulated(as, n.ID, sim, func(r *simulate.Simulation) acceleratorStep {
		return acceleratorStep{r.ExamplesPerSecond, r.Devices[0].PeakBytes, r.Fits}
	})
}
