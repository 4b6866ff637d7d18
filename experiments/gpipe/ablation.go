package gpipe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/train"
)

type ablationSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	K                                []int            `yaml:"k" want:"1..1024"`
	M                                int              `yaml:"m" want:"1..65536"`
	Partitioners                     []string         `yaml:"partitioners" want:"partitioner"`
	Costs                            []string         `yaml:"costs" want:"cost"`
	Base                             cells.CutSpec    `yaml:"base"`
	Networks                         []ablatedNetwork `yaml:"networks"`
}

// ablatedNetwork is a network on its accelerator.
type ablatedNetwork struct {
	Name     string `yaml:"name" want:"name,key"`
	cells.On `yaml:",inline"`
	Micro    int `yaml:"micro"` // examples of a micro-batch
}

// cuts are every partitioner over every cost.
func (s *ablationSpec) cuts() (cuts []cells.CutSpec) {
	for _, cost := range s.Costs {
		for _, rule := range s.Partitioners {
			cuts = append(cuts, cells.CutSpec{Partitioner: rule, Cost: cost})
		}
	}
	return cuts
}

// cutSample is what one network on K devices comes to.
type cutSample struct {
	Cuts []cutOutcome `json:"cuts"` // as the spec's
	// Even is the step on stages of the same time, which no cut at layers may
	// give: the closed form, without links and update.
	Even float64 `json:"even_seconds"`
}

// cutOutcome is what a cut comes to.
type cutOutcome struct {
	ByFLOPs float64    `json:"efficiency_flops"` // mean stage over largest
	ByTime  float64    `json:"efficiency_time"`
	Step    cells.Step `json:"step"`
}

// ablation cuts the paper's networks by every rule and models what comes out. It needs code
// since a sample has the steps of all cuts, whose layers are timed once.
var ablation = cells.Kind[ablationSpec, cutSample]{
	Check: func(s *ablationSpec) *lab.Problem {
		if !slices.Contains(s.cuts(), s.Base) {
			return lab.At(errors.New("want one of the partitioners over one of the costs"), "base")
		}
		return nil
	},
	Planned: func(s *ablationSpec) []lab.PlannedRun {
		return lab.PlannedNetworks(s.Networks, func(n ablatedNetwork) lab.ModelledRun { return lab.ModelledRun{Model: n.Model, Most: slices.Max(s.K)} })
	},
	Rows: func(s *ablationSpec, _ string) (rows []cells.Row[cutSample], err error) {
		for _, n := range s.Networks {
			modeller := cells.Shared(func(context.Context) (*cells.Modeller, error) {
				return cells.NewModeller(&cells.Network{On: n.On}, false, nil)
			})
			for _, k := range s.K {
				rows = append(rows, cells.Row[cutSample]{
					Has: shown.Values{"network": n.Name, "on": n.Accelerator, "K": k, "group": fmt.Sprintf("K = %d", k)},
					Reads: []cells.Cell[cutSample]{{
						Sample: lab.AtRates(fmt.Sprintf("%s/K=%d", n.Name, k), n.Accelerator, nil),
						Make: func(ctx context.Context) (made cutSample, err error) {
							m, err := modeller(ctx)
							if err != nil {
								return made, err
							}
							return s.measure(ctx, m, n, k)
						},
						Values: s.values,
						Check: func(made cutSample) error {
							if want := len(s.cuts()); len(made.Cuts) != want {
								return fmt.Errorf("%d cuts, want %d", len(made.Cuts), want)
							}
							return nil
						},
					}},
				})
			}
		}
		return rows, nil
	},
}

func (s *ablationSpec) measure(ctx context.Context, m *cells.Modeller, n ablatedNetwork, k int) (made cutSample, err error) {
	layers, err := m.Layers(ctx, n.Micro)
	if err != nil {
		return made, err
	}
	var f, r, b float64
	for _, l := range layers {
		f, r, b = f+l.Forward/float64(k), r+l.Recompute/float64(k), b+l.Backward/float64(k)
	}
	if made.Even, err = schedule.StepTime(schedule.GPipe, schedule.Always, false, k, s.M, f, r, b); err != nil {
		return made, err
	}
	for _, how := range s.cuts() {
		sizes, err := m.Cut(ctx, how.Setup(train.Setup{}), k, n.Micro)
		if err != nil {
			return made, err
		}
		step, err := m.Step(ctx, sizes, n.Micro, s.M)
		if err != nil {
			return made, err
		}
		made.Cuts = append(made.Cuts, cutOutcome{partition.Efficiency(m.Flops, sizes), partition.Efficiency(gpipe.LayerSeconds(layers, schedule.Always), sizes), *step})
	}
	return made, nil
}

// values are the throughputs of cuts, and of even stages, relative to the base's.
func (s *ablationSpec) values(made cutSample) shown.Values {
	cuts := s.cuts()
	if made.Cuts == nil { // while a spec is read
		made.Cuts = make([]cutOutcome, len(cuts))
	}
	base := made.Cuts[slices.Index(cuts, s.Base)]
	all := shown.Values{"by_flops": base.ByFLOPs, "by_time": base.ByTime, "even": base.Step.Early / made.Even}
	for i, how := range cuts {
		all["by_"+shown.Word(how.String())] = base.Step.Early / made.Cuts[i].Step.Early
	}
	return all
}
