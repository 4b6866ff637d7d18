package gpipe

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/nn"
	"gpipebench/simulate"
	"gpipebench/train"
)

// countsSpec is the spec of counts.
type countsSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	Networks                         []countedNetwork `yaml:"networks"`
	Even                             []lab.Cell       `yaml:"even"`
}

type countedNetwork struct {
	Name   string        `yaml:"name" want:"name,key"`
	Model  train.Model   `yaml:"model"`
	Layers []string      `yaml:"layers" want:"name,optional"` // that are counted by themselves, or allLayers
	Steps  []plannedStep `yaml:"steps" want:"optional"`
}

// allLayers names all layers of a network together.
const allLayers = "all"

type plannedStep struct {
	Accelerator string `yaml:"accelerator" want:"accelerator"`
	DType       string `yaml:"dtype" want:"dtype"`
	KeepScores  bool   `yaml:"keep_scores"`
	K           int    `yaml:"k" want:"1..1024"`
	M           int    `yaml:"m" want:"1..65536"`
	Batch       int    `yaml:"batch"`
	Checkpoint  string `yaml:"checkpoint" want:"checkpoint"`
}

// counted is what a sample has of a network or one of its layers, or of the fullest device of a
// step.
type counted struct {
	Parameters  int64 `json:"parameters,omitempty"`
	Saved       int64 `json:"saved_bytes,omitempty"`
	FLOPs       int64 `json:"flops,omitempty"`
	Activations int64 `json:"activation_bytes,omitempty"`
	Fullest     int64 `json:"peak_bytes,omitempty"`
}

// counts has what claims read of networks and plans that no table of the paper shows. It needs
// code since it counts networks, layers, steps and a closed form.
var counts = cells.Kind[countsSpec, counted]{
	Check: func(s *countsSpec) *lab.Problem {
		for i, n := range s.Networks {
			for j, p := range n.Steps {
				if p.Batch < p.M {
					return lab.At(fmt.Errorf("%d examples: want %d or more, one for each micro-batch", p.Batch, p.M), "networks", strconv.Itoa(i), "steps", strconv.Itoa(j), "batch")
				}
			}
		}
		return nil
	},
	Planned: func(s *countsSpec) []lab.PlannedRun {
		return lab.PlannedNetworks(s.Networks, func(n countedNetwork) lab.ModelledRun {
			run := lab.ModelledRun{Model: n.Model, Most: 1}
			for _, p := range n.Steps {
				run.Most = max(run.Most, p.K)
			}
			return run
		})
	},
	Rows: func(s *countsSpec, _ string) (rows []cells.Row[counted], err error) {
		row := func(of string, has shown.Values, c cells.Cell[counted]) {
			rows = append(rows, cells.Row[counted]{Of: of, Has: has, Reads: []cells.Cell[counted]{c}})
		}
		for _, n := range s.Networks {
			if !slices.Contains(n.Layers, allLayers) {
				row("", shown.Values{"network": n.Name, "layer": allLayers, "one": false, "saved": 0, "flops": 0}, n.parameters())
			}
			for _, name := range n.Layers {
				row("", shown.Values{"network": n.Name, "layer": name, "one": true}, n.layer(name))
			}
			for _, p := range n.Steps {
				row("steps", shown.Values{
					"network": n.Name, "accelerator": p.Accelerator, "dtype": p.DType,
					"K": p.K, "M": p.M, "batch": p.Batch, "checkpoint": p.Checkpoint,
				}, n.step(p))
			}
		}
		for _, c := range s.Even {
			step, err := timed.EvenStep(train.Setup{Partitions: c.K, MicroBatches: c.M, Schedule: schedule.GPipe, Checkpoint: schedule.Always})
			if err != nil {
				return nil, err
			}
			rows = append(rows, cells.Row[counted]{Of: "even", Has: shown.Values{"K": c.K, "M": c.M, "step": step}})
		}
		return rows, nil
	},
}

func (n countedNetwork) parameters() cells.Cell[counted] {
	return cells.Cell[counted]{
		Sample: n.Name,
		Make: func(context.Context) (counted, error) {
			layers, err := n.Model.Build()
			return counted{Parameters: nn.CountParams(layers)}, err
		},
		Values: func(c counted) shown.Values { return shown.Values{"parameters": c.Parameters} },
	}
}

func (n countedNetwork) layer(name string) cells.Cell[counted] {
	return cells.Cell[counted]{
		Sample: n.Name + "/" + name,
		Make: func(ctx context.Context) (counted, error) {
			d, err := simulate.Describing{Model: n.Model, Setup: train.Setup{Partitions: 1, MicroBatches: 1}, Batch: 1}.Run(ctx)
			if err != nil {
				return counted{}, err
			}
			var sum counted
			for _, l := range d.Layers {
				if name == allLayers || name == l.Name {
					sum = counted{Parameters: sum.Parameters + l.Params, Saved: sum.Saved + l.SavedBytes, FLOPs: sum.FLOPs + l.FLOPs}
				}
			}
			if sum == (counted{}) {
				return sum, fmt.Errorf("no layer %q", name)
			}
			return sum, nil
		},
		Values: func(c counted) shown.Values {
			return shown.Values{"parameters": c.Parameters, "saved": c.Saved, "flops": c.FLOPs}
		},
	}
}

func (n countedNetwork) step(p plannedStep) cells.Cell[counted] {
	return cells.Cell[counted]{
		Sample: fmt.Sprintf("%s/%s/%s/scores=%v/K=%d/M=%d/N=%d/%s", n.Name, p.Accelerator, p.DType, p.KeepScores, p.K, p.M, p.Batch, p.Checkpoint),
		Make: func(ctx context.Context) (made counted, err error) {
			r, err := simulate.Simulating{
				Model: n.Model, Accelerator: p.Accelerator, Batch: p.Batch, Optimizer: "adam", DType: lab.Named(train.ParseDType, p.DType), KeepScores: p.KeepScores,
				Setup: train.Setup{Partitions: p.K, MicroBatches: p.M, Checkpoint: lab.Named(schedule.ParseCheckpoint, p.Checkpoint)},
			}.Run(ctx)
			if err != nil {
				return made, err
			}
			for _, d := range r.Devices {
				made.Activations, made.Fullest = max(made.Activations, d.ActivationBytes), max(made.Fullest, d.PeakBytes)
			}
			return made, nil
		},
		Values: func(c counted) shown.Values { return shown.Values{"activations": c.Activations, "fullest": c.Fullest} },
	}
}
