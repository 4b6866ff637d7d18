package beyond

import (
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/simulate"
	"gpipebench/train"
)

type podsSpec struct {
	shown.Profiled[podsProfile] `yaml:",inline"`
	Sides                       []int        `yaml:"sides" want:"1..256,first=1,ascending"` // of the tori of replicas
	Ways                        []way        `yaml:"ways"`
	Schedule                    string       `yaml:"schedule" want:"schedule"`
	Checkpoint                  string       `yaml:"checkpoint" want:"checkpoint"`
	Networks                    []podNetwork `yaml:"networks"`
}

// way is a way to add up gradients.
type way struct {
	Name      string `yaml:"name" want:"name,key"`
	AllReduce string `yaml:"all_reduce" want:"all-reduce"`
	Shard     bool   `yaml:"shard_update"`
}

type podNetwork struct {
	ID       string `yaml:"id" want:"id,key"`
	Name     string `yaml:"name" want:"name"`
	cells.On `yaml:",inline"`
	K        int `yaml:"k" want:"1..1024"`
	Micro    int `yaml:"micro"`                  // examples of a micro-batch
	M        int `yaml:"m" want:"1..1024"`       // weak: micro-batches of a replica
	StrongM  int `yaml:"strong_m" want:"1..256"` // strong: at the most replicas
}

type podsProfile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Most     int      `yaml:"most" want:"1..256"` // the longest side
}

// podStep is the outcome of a step.
type podStep struct {
	Seconds float64 `json:"seconds"`
	Reduce  float64 `json:"all_reduce_seconds"` // of the stage that takes longest
	Update  float64 `json:"update_seconds"`     // the same
	Params  int64   `json:"param_bytes"`        // with the optimiser's state, on the fullest device
	Fits    bool    `json:"fits"`
}

// weak and strong scaling.
const weak, strong = "weak", "strong"

// podCell is a network on a torus of replicas.
type podCell struct {
	of    podNetwork
	kind  string
	side  int
	micro int // M, of each replica
}

func (c podCell) replicas() int { return c.side * c.side }

// batch is the mini-batch.
func (c podCell) batch() int { return c.of.Micro * c.micro * c.replicas() }

// check refuses a step whose mini-batch cannot be divided over the most replicas,
// or is too large.
func (c podCell) check(most int) error {
	switch r := c.replicas(); {
	case most%r != 0:
		return fmt.Errorf("a mini-batch for %d replicas cannot be divided over %d: want sides that divide the longest", most, r)
	case c.micro*r > gpipe.MaxTasks/c.of.K:
		return fmt.Errorf("%s: %d micro-batches on each of %d replicas of %d stages: want a product of at most %d", c.of.Name, c.micro, r, c.of.K, gpipe.MaxTasks)
	case c.of.Micro > gpipe.MaxExamples/(c.micro*r):
		return fmt.Errorf("%s: %d micro-batches of %d examples on each of %d replicas: want at most %d examples", c.of.Name, c.micro, c.of.Micro, r, gpipe.MaxExamples)
	}
	return nil
}

// replicasModelled models steps on replicas with as many examples each, and with one
// mini-batch for all. It needs code for its axes: M follows from the most replicas of a profile.
var replicasModelled = cells.Kind[podsSpec, podStep]{
	Check: func(s *podsSpec) *lab.Problem {
		for i, n := range s.Networks {
			if slices.ContainsFunc(s.Networks[:i], func(other podNetwork) bool { return other.Name == n.Name }) {
				return lab.At(fmt.Errorf("%s is there twice: want names of their own", n.Name), "networks", strconv.Itoa(i), "name")
			}
		}
		for _, name := range lab.Profiles {
			all, most := s.cells(name)
			for _, c := range all {
				if err := c.check(most); err != nil {
					return lab.At(err, "profiles", name, "most")
				}
			}
		}
		return nil
	},
	Planned: func(s *podsSpec) []lab.PlannedRun {
		return lab.PlannedNetworks(s.Networks, func(n podNetwork) lab.ModelledRun { return lab.ModelledRun{Model: n.Model, Most: n.K} })
	},
	Rows: func(s *podsSpec, profile string) (rows []cells.Row[podStep], err error) {
		all, _ := s.cells(profile)
		for _, c := range all {
			share := 1
			if c.kind == strong {
				share = c.replicas()
			}
			one := podCell{c.of, c.kind, 1, c.micro * share}
			for _, w := range s.Ways {
				rows = append(rows, cells.Row[podStep]{
					Has: shown.Values{
						"network": c.of.Name, "scaling": c.kind, "R": c.replicas(), "accelerators": c.replicas() * c.of.K, "batch": c.batch(), "M": c.micro, "share": share, "way": w.Name,
					},
					Reads: []cells.Cell[podStep]{s.cell("one", one, s.Ways[0]), s.cell("", c, w)},
				})
			}
		}
		return rows, nil
	},
}

// cells returns a profile's cells; most is the largest number of replicas.
func (s *podsSpec) cells(profile string) (all []podCell, most int) {
	var sides []int
	for _, side := range s.Sides {
		if side <= s.Profiles[profile].Most {
			sides, most = append(sides, side), side*side
		}
	}
	for _, n := range s.Networks {
		for _, kind := range []string{weak, strong} {
			for _, side := range sides {
				micro := n.M
				if kind == strong {
					micro = n.StrongM * most / (side * side)
				}
				all = append(all, podCell{n, kind, side, micro})
			}
		}
	}
	return all, most
}

// cell is a step with gradients added up in a way. One replica adds up nothing, in whatever way.
func (s *podsSpec) cell(as string, c podCell, w way) cells.Cell[podStep] {
	name := fmt.Sprintf("%s/%s/R=%d", c.of.ID, c.kind, c.replicas())
	if c.side > 1 {
		name += "/" + w.Name
	}
	sim := c.of.Simulating(c.batch(), train.Setup{
		Partitions: c.of.K, MicroBatches: c.micro, Replicas: c.replicas(), ShardUpdate: w.Shard,
		Schedule: lab.Named(schedule.Parse, s.Schedule), Checkpoint: lab.Named(schedule.ParseCheckpoint, s.Checkpoint),
	})
	sim.AllReduce, sim.Torus = lab.Named(reduction.ParseKind, w.AllReduce), [2]int{c.side, c.side}
	return cells.Simulated(as, name, sim, func(r *simulate.Simulation) podStep {
		made := podStep{Seconds: r.StepSeconds, Reduce: r.ReduceSeconds, Update: r.UpdateSeconds, Fits: r.Fits}
		for _, d := range r.Devices {
			made.Params = max(made.Params, d.ParamBytes)
		}
		return made
	})
}
