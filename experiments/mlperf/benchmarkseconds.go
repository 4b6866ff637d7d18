package mlperf

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/simulate"
	"gpipebench/train"
)

type secondsSpec struct {
	shown.Profiled[mostRuns] `yaml:",inline"`
	pod                      `yaml:",inline"`
	Networks                 []submitted `yaml:"networks"`
	Printed                  []struct {  // figures of the paper that are others elsewhere
		ID      string       `yaml:"id" want:"id,key"`
		What    string       `yaml:"what" want:"name"`
		Printed lab.Verbatim `yaml:"printed"`
		Found   lab.Verbatim `yaml:"found"`
		In      string       `yaml:"in" want:"name"`
	} `yaml:"printed"`
}

// submitted is a network with its runs.
type submitted struct {
	ID        string      `yaml:"id" want:"id,key"`
	Name      string      `yaml:"name" want:"name"`
	Model     train.Model `yaml:"model"`
	Optimizer string      `yaml:"optimizer" want:"optimizer"`
	Examples  int         `yaml:"examples" want:"0..1000000000"` // of an epoch; 0: runs have its steps
	Runs      []loggedRun `yaml:"runs"`
}

// loggedRun is what was logged on a number of cores.
type loggedRun struct {
	Torus   torus        `yaml:"torus"`
	Batch   int          `yaml:"batch" want:"1..16777216"`
	Epochs  lab.Verbatim `yaml:"epochs"`
	Seconds lab.Verbatim `yaml:"seconds"`
	Spatial int          `yaml:"spatial" want:"0..64"`             // cores that divide each image by its rows; 0: 1
	Scope   string       `yaml:"bn_scope" want:"scope,optional"`   // in groups of such cores
	Steps   int          `yaml:"epoch_steps" want:"0..1000000000"` // of an epoch; 0: its examples over the mini-batch
}

// spatial is the number of cores that have an image together.
func (r loggedRun) spatial() int { return max(r.Spatial, 1) }

// groups is the number of replicas: each is one core, or those that divide its images.
func (r loggedRun) groups() int { return r.Torus.cores() / r.spatial() }

// examples is the number of them that a group has.
func (r loggedRun) examples() int { return r.Batch / r.groups() }

// steps of the whole training, of a network with examples in an epoch.
func (r loggedRun) steps(examples int) float64 {
	if r.Steps > 0 {
		return r.Epochs.Number() * float64(r.Steps)
	}
	return r.Epochs.Number() * (float64(examples) / float64(r.Batch))
}

// ranks says what a mini-batch and batch norm's statistics are divided over.
func (r loggedRun) ranks() string {
	if r.spatial() == 1 {
		return fmt.Sprintf("%d cores", r.groups())
	}
	return fmt.Sprintf("%d groups of %d cores", r.groups(), r.spatial())
}

// check refuses a run that cannot be, with the field that is wrong; "": several are.
func (r loggedRun) check(examples int, before torus) (field string, err error) {
	if err := checkTorus(r.Torus, before); err != nil {
		return "torus", err
	}
	switch cores := r.Torus.cores(); {
	case cores%r.spatial() != 0 || r.groups() < 2:
		return "spatial", fmt.Errorf("%d of %d cores for each image: want a number that divides them into two groups or more", r.Spatial, cores)
	case r.Batch%r.groups() != 0:
		return "batch", fmt.Errorf("%d examples on %s: want as many on each", r.Batch, r.ranks())
	case (examples > 0) == (r.Steps > 0):
		return "", errors.New("want either the network's examples or the steps of an epoch")
	}
	return "bn_scope", checkScope(r.Scope, r.groups(), r.ranks())
}

// podStep is a step.
type podStep struct {
	Seconds float64 `json:"seconds"`
	Reduce  float64 `json:"all_reduce_seconds"`
	Update  float64 `json:"update_seconds"`
	Fits    bool    `json:"fits"`
}

// benchmarkSeconds models how long trainings took on pods. It needs code since the cores of a
// group may divide its images, which no simulation of replicas has.
var benchmarkSeconds = cells.Kind[secondsSpec, podStep]{
	Check: func(s *secondsSpec) *lab.Problem {
		most := 0
		for i, n := range s.Networks {
			most = max(most, len(n.Runs))
			var before torus
			for j, r := range n.Runs {
				if field, err := r.check(n.Examples, before); err != nil {
					path := []string{"networks", strconv.Itoa(i), "runs", strconv.Itoa(j)}
					if field != "" {
						path = append(path, field)
					}
					return lab.At(err, path...)
				}
				before = r.Torus
			}
		}
		return lab.CheckMost(s.Profiles, "most", mostRuns.most, most, "runs of a network")
	},
	Rows: func(s *secondsSpec, profile string) (rows []cells.Row[podStep], err error) {
		for _, n := range s.Networks {
			for _, r := range n.Runs[:min(s.Profiles[profile].Most, len(n.Runs))] {
				rows = append(rows, cells.Row[podStep]{
					Has: shown.Values{
						"network": n.Name, "cores": r.Torus.cores(), "spatial": r.spatial(), "batch": r.Batch,
						"epochs": r.Epochs.Printed(""), "steps": r.steps(n.Examples), "logged": r.Seconds.Number(),
					},
					Reads: []cells.Cell[podStep]{{
						Sample: lab.AtRates(fmt.Sprintf("%s/cores=%d", n.ID, r.Torus.cores()), s.Accelerator, nil),
						Make:   func(ctx context.Context) (podStep, error) { return s.model(ctx, n, r) },
					}},
				})
			}
		}
		for _, p := range s.Printed {
			rows = append(rows, cells.Row[podStep]{Of: "printed", Has: shown.Values{"id": p.ID, "what": p.What, "printed": p.Printed.Printed(""), "found": p.Found.Printed(""), "in": p.In}})
		}
		return rows, nil
	},
}

// model models a step. Of a group that divides its images, one core with all of them is
// simulated as each of the cores, which have the all-reduce and the divided update in common;
// what a group's F and B take less is taken off, without its own sums of gradients, which are
// part of the all-reduce.
func (s *secondsSpec) model(ctx context.Context, n submitted, r loggedRun) (made podStep, err error) {
	step := s.step(n.Model, n.Optimizer, r.Torus, r.examples()*r.Torus.cores(), r.Scope, true)
	of, err := step.Run(ctx)
	if err != nil {
		return made, err
	}
	made = podStep{Seconds: of.StepSeconds, Reduce: of.ReduceSeconds, Update: of.UpdateSeconds, Fits: of.Fits}
	if r.spatial() > 1 {
		saved, err := saves(ctx, step, r.examples(), r.spatial())
		made.Seconds -= saved
		return made, err
	}
	return made, nil
}

// saves returns by how many seconds F and B of some images are shorter on cores that divide
// them than on one core, but for sums of gradients.
func saves(ctx context.Context, step simulate.Simulating, examples, cores int) (float64, error) {
	in := step.Model.Input(examples)
	step.Batch, step.AllReduce, step.Torus = examples, reduction.Ring, [2]int{}
	step.Setup = train.Setup{Partitions: 1, MicroBatches: 1, Schedule: schedule.GPipe, Checkpoint: schedule.Never}
	p, err := step.Pipeline(ctx, in)
	if err != nil {
		return 0, err
	}
	one, err := p.ModelSpatial(in, 1, step.Modelling())
	if err != nil {
		return 0, err
	}
	group, err := p.ModelSpatial(in, cores, step.Modelling())
	return one.Seconds() - (group.Seconds() - group.Sums), err
}
