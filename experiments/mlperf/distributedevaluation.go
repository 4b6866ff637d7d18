package mlperf

import (
	"fmt"
	"strconv"

	"gpipebench/gpipe/timeline"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/simulate"
	"gpipebench/train"
)

type evaluationSpec struct {
	shown.Profiled[mostRuns] `yaml:",inline"`
	pod                      `yaml:",inline"`
	Model                    train.Model     `yaml:"model"`
	Optimizer                string          `yaml:"optimizer" want:"optimizer"`
	Images                   int             `yaml:"images" want:"1..1000000000"` // of an epoch
	HeldOut                  int             `yaml:"held_out" want:"1..1000000000"`
	Every                    int             `yaml:"every" want:"1..1000"`  // epochs
	Alone                    int             `yaml:"alone" want:"1..65536"` // images of a mini-batch of a core that evaluates by itself
	Card                     int             `yaml:"card" want:"1..65536"`  // cores
	Runs                     []evaluationRun `yaml:"runs"`
}

// evaluationRun is a training on a number of cores.
type evaluationRun struct {
	Torus torus  `yaml:"torus"`
	Batch int    `yaml:"batch" want:"1..16777216"`
	Scope string `yaml:"bn_scope" want:"scope,optional"`
}

// mostRuns is a profile.
type mostRuns struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Most     int      `yaml:"most" want:"1..64"` // how many of the runs
}

func (m mostRuns) most() int { return m.Most }

// passes is a step, or one of a core by itself.
type passes struct {
	Seconds float64 `json:"seconds"`
	Forward float64 `json:"forward_seconds"`
}

// distributedEvaluation models the share of evaluations in a training, divided over the cores
// that train and on one of them. It needs code since it times forward passes.
var distributedEvaluation = cells.Kind[evaluationSpec, passes]{
	Check: func(s *evaluationSpec) *lab.Problem {
		var before torus
		for i, r := range s.Runs {
			at := func(err error, field string) *lab.Problem { return lab.At(err, "runs", strconv.Itoa(i), field) }
			cores := r.Torus.cores()
			if err := checkTorus(r.Torus, before); err != nil {
				return at(err, "torus")
			}
			before = r.Torus
			if r.Batch%cores != 0 {
				return at(fmt.Errorf("%d examples on %d cores: want as many on each", r.Batch, cores), "batch")
			}
			if err := checkScope(r.Scope, cores, fmt.Sprintf("%d cores", cores)); err != nil {
				return at(err, "bn_scope")
			}
		}
		return lab.CheckMost(s.Profiles, "most", mostRuns.most, len(s.Runs), "runs")
	},
	Rows: func(s *evaluationSpec, profile string) (rows []cells.Row[passes], err error) {
		batches := func(images int) int { return (s.HeldOut + images - 1) / images } // that hold what is held out
		for _, r := range s.Runs[:s.Profiles[profile].Most] {
			cores := r.Torus.cores()
			rows = append(rows, cells.Row[passes]{
				Has: shown.Values{
					"cores": cores, "batch": r.Batch, "images": s.Images, "held_out": s.HeldOut, "every": s.Every,
					"batches": batches(r.Batch), "batches_alone": batches(s.Alone), "batches_card": batches(s.Card * s.Alone),
				},
				Reads: []cells.Cell[passes]{
					forwards("step", fmt.Sprintf("cores=%d", cores), s.step(s.Model, s.Optimizer, r.Torus, r.Batch, r.Scope, true)),
					s.alone("each", r.Batch/cores), s.alone("alone", s.Alone),
				},
			})
		}
		return rows, nil
	},
}

// alone models a step of one core with a number of images.
func (s *evaluationSpec) alone(as string, images int) cells.Cell[passes] {
	return forwards(as, fmt.Sprintf("alone/examples=%d", images), s.step(s.Model, s.Optimizer, alone, images, "", false))
}

func forwards(as, name string, sim simulate.Simulating) cells.Cell[passes] {
	return cells.Simulated(as, name, sim, func(r *simulate.Simulation) passes {
		made := passes{Seconds: r.StepSeconds}
		for event := range r.Step.Timeline.All() {
			if event.Kind == timeline.Forward && event.At.Replica == 0 {
				made.Forward += event.End - event.Start
			}
		}
		return made
	})
}
