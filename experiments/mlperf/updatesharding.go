package mlperf

import (
	"fmt"
	"strconv"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/simulate"
	"gpipebench/train"
)

type updateSpec struct {
	shown.Profiled[updateProfile] `yaml:",inline"`
	pod                           `yaml:",inline"`
	Tori                          []torus         `yaml:"tori"`
	Networks                      []updateNetwork `yaml:"networks"`
	// Conventions are what the model leaves open. The first was fixed before anything was
	// compared; the others are shown on the largest torus.
	Conventions []convention `yaml:"conventions"`
}

type convention struct {
	Name  string `yaml:"name" want:"name,key"`
	Links int    `yaml:"links" want:"1..4"` // of a core that carry gradients at once
	Tiled string `yaml:"tiled" want:"switch"`
}

type updateNetwork struct {
	ID        string       `yaml:"id" want:"id,key"`
	Name      string       `yaml:"name" want:"name"`
	Model     train.Model  `yaml:"model"`
	Optimizer string       `yaml:"optimizer" want:"optimizer"`
	Examples  int          `yaml:"examples" want:"1..65536"` // of a core
	Scope     string       `yaml:"bn_scope" want:"scope,optional"`
	Paper     lab.Verbatim `yaml:"paper"` // percent of a step, on the largest torus
}

type updateProfile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Largest  int      `yaml:"largest" want:"1..64"` // how many of the tori
}

// updateStep is a step's outcome.
type updateStep struct {
	Seconds float64 `json:"seconds"`
	Reduce  float64 `json:"all_reduce_seconds"` // of gradients and of updated weights
	Update  float64 `json:"update_seconds"`
	State   int64   `json:"param_bytes"` // weights and the optimiser's state of a core
	Peak    int64   `json:"peak_bytes"`
	Fits    bool    `json:"fits"`
}

// updateSharding models the share of the weight update in a step, with and without dividing it
// over the cores. It needs code for its axes: conventions other than the first are on the
// largest torus only, and each row reads a core by itself, the cores, and the cores that divide
// the update.
var updateSharding = cells.Kind[updateSpec, updateStep]{
	Check: func(s *updateSpec) *lab.Problem {
		var before torus
		for i, t := range s.Tori {
			if err := checkTorus(t, before); err != nil {
				return lab.At(err, "tori", strconv.Itoa(i))
			}
			before = t
			for j, n := range s.Networks {
				if err := checkScope(n.Scope, t.cores(), fmt.Sprintf("%d cores", t.cores())); err != nil {
					return lab.At(err, "networks", strconv.Itoa(j), "bn_scope")
				}
				if n.Examples > gpipe.MaxExamples/t.cores() {
					return lab.At(fmt.Errorf("%d examples on each of %d cores: want at most %d in all", n.Examples, t.cores(), gpipe.MaxExamples), "networks", strconv.Itoa(j), "examples")
				}
			}
		}
		return lab.CheckMost(s.Profiles, "largest", func(p updateProfile) int { return p.Largest }, len(s.Tori), "tori")
	},
	Rows: func(s *updateSpec, profile string) (rows []cells.Row[updateStep], err error) {
		for _, n := range s.Networks {
			for i, c := range s.Conventions {
				for k, on := range s.Tori[:s.Profiles[profile].Largest] {
					last := k == len(s.Tori)-1
					if i > 0 && !last {
						continue
					}
					paper := lab.Absent
					if last {
						paper = n.Paper.Printed("%")
					}
					rows = append(rows, cells.Row[updateStep]{
						Has:   shown.Values{"network": n.Name, "convention": c.Name, "first": i == 0, "cores": on.cores(), "batch": n.Examples * on.cores(), "paper": paper},
						Reads: []cells.Cell[updateStep]{s.cell("one", n, c, alone, false), s.cell("each", n, c, on, false), s.cell("divided", n, c, on, true)},
					})
				}
			}
		}
		return rows, nil
	},
}

// cell is a step of a network on a torus under a convention.
func (s *updateSpec) cell(as string, n updateNetwork, under convention, on torus, shard bool) cells.Cell[updateStep] {
	name := fmt.Sprintf("%s/%s/cores=%d", n.ID, under.Name, on.cores())
	if shard {
		name += "/divided"
	}
	scope := n.Scope
	if on == alone {
		scope = ""
	}
	sim := s.step(n.Model, n.Optimizer, on, n.Examples*on.cores(), scope, shard)
	sim.Tiled = lab.Named(simulate.ParseSwitch, under.Tiled)
	sim.Change = func(a *accelerator.Accelerator) { a.Link.Bandwidth *= float64(under.Links) }
	return cells.Simulated(as, name, sim, func(r *simulate.Simulation) updateStep {
		made := updateStep{Seconds: r.StepSeconds, Reduce: r.ReduceSeconds, Update: r.UpdateSeconds, Fits: r.Fits}
		for _, d := range r.Devices {
			made.State, made.Peak = max(made.State, d.ParamBytes), max(made.Peak, d.PeakBytes)
		}
		return made
	})
}
