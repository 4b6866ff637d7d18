package mlperf

import (
	"context"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
)

type spatialSpec struct {
	shown.Profiled[spatialProfile] `yaml:",inline"`
	cells.On                       `yaml:",inline"`
	Examples                       []int        `yaml:"examples" want:"1..1024"` // of all cores of an image
	Cores                          []int        `yaml:"cores" want:"1..64,first=1,ascending"`
	Paper                          lab.Verbatim `yaml:"paper"` // at the first number of examples, on the most cores
}

type spatialProfile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Batches  int      `yaml:"batches" want:"1..64"` // how many of the examples
}

// imageStep is a step of a number of cores.
type imageStep struct {
	gpipe.SpatialEstimate
	// Rest is the step's time besides F and B on one core: the update, and clearing
	// gradients. All cores do it alike.
	Rest float64
}

// spatialPartitioning models what a network gains from cores that divide its images. It needs
// code since such cores are no replicas.
var spatialPartitioning = cells.Kind[spatialSpec, imageStep]{
	Check: func(s *spatialSpec) *lab.Problem {
		return lab.CheckMost(s.Profiles, "batches", func(p spatialProfile) int { return p.Batches }, len(s.Examples), "examples")
	},
	Rows: func(s *spatialSpec, profile string) (rows []cells.Row[imageStep], err error) {
		for b, examples := range s.Examples[:s.Profiles[profile].Batches] {
			for i, cores := range s.Cores {
				paper := lab.Absent
				if b == 0 && i == len(s.Cores)-1 {
					paper = s.Paper.Printed("")
				}
				rows = append(rows, cells.Row[imageStep]{
					Has:   shown.Values{"first": b == 0, "images": examples, "cores": cores, "paper": paper},
					Reads: []cells.Cell[imageStep]{s.cell("one", examples, 1), s.cell("of", examples, cores)},
				})
			}
		}
		return rows, nil
	},
}

func (s *spatialSpec) cell(as string, examples, cores int) cells.Cell[imageStep] {
	name := lab.AtRates(fmt.Sprintf("examples=%d/cores=%d", examples, cores), s.Accelerator, nil)
	return cells.Cell[imageStep]{As: as, Sample: name, Make: func(ctx context.Context) (made imageStep, err error) {
		sim := pod{s.Accelerator, s.DType, "ring"}.step(s.Model, s.Optimizer, alone, examples, "", false)
		step, err := sim.Run(ctx)
		if err != nil {
			return made, err
		}
		in := s.Model.Input(examples)
		p, err := sim.Pipeline(ctx, in)
		if err != nil {
			return made, err
		}
		one, err := p.ModelSpatial(in, 1, sim.Modelling())
		if err != nil {
			return made, err
		}
		made.SpatialEstimate, err = p.ModelSpatial(in, cores, sim.Modelling())
		made.Rest = step.StepSeconds - one.Seconds()
		return made, err
	}}
}
