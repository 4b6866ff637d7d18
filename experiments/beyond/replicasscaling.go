package beyond

import (
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// scalingSpec is the spec of replicas-scaling.
type scalingSpec struct {
	timed.Spec[scalingProfile] `yaml:",inline"`
	Checkpoint                 string `yaml:"checkpoint" want:"checkpoint"`
	M                          int    `yaml:"m" want:"1..1024"` // of each group
	Replicas                   []int  `yaml:"replicas" want:"1..64,first=1"`
	PictureM                   int    `yaml:"picture_m" want:"1..1024"`
}

type scalingProfile struct {
	timed.Profile `yaml:",inline"`
	Model         train.Model `yaml:"model"`
	Examples      int         `yaml:"examples"` // of a replica; strong: at the largest R
	Steps         int         `yaml:"steps" want:"1..1000"`
}

// replicasScaling times steps on replicas with as many examples each, and with one mini-batch
// for all.
type replicasScaling = timed.Timed[scalingSpec, scalingProfile]

func newReplicasScaling() (lab.Experiment, error) {
	x := &replicasScaling{}
	x.Runs, x.Show = x.Spec.runs, x.Spec.show
	return x, nil
}

const scalingPicture = "picture/R=2/K=2"

// scalingCell is a row of the table.
type scalingCell struct {
	kind    string
	r       int
	divided bool
}

func (c scalingCell) name() string {
	return fmt.Sprintf("%s/R=%d/update=%s", c.kind, c.r, lab.DividedOrWhole(c.divided))
}

// base is the run that a cell is compared with: one replica.
func (c scalingCell) base() string { return scalingCell{c.kind, 1, false}.name() }

// cells are the table's, in its order. One replica has nothing to divide.
func (s *scalingSpec) cells() (all []scalingCell) {
	for _, kind := range []string{weak, strong} {
		for _, divided := range []bool{false, true} {
			for _, r := range s.Replicas {
				if r > 1 || !divided {
					all = append(all, scalingCell{kind, r, divided})
				}
			}
		}
	}
	return all
}

// setup returns a cell's setup, for a mini-batch of that many examples.
func (s *scalingSpec) setup(c scalingCell, p scalingProfile) (of train.Setup, batch int) {
	most := slices.Max(s.Replicas)
	of = train.Setup{
		Partitions: 1, MicroBatches: s.M, Replicas: c.r, Groups: c.r, ShardUpdate: c.divided,
		Checkpoint: lab.Named(schedule.ParseCheckpoint, s.Checkpoint), Device: gpipe.Emulated, Threads: 1,
	}
	if c.kind == weak {
		return of, c.r * p.Examples
	}
	of.Groups = most
	return of, most * p.Examples
}

func (s *scalingSpec) runs(p scalingProfile) (runs []timed.Run) {
	add := func(name string, setup train.Setup, batch int) {
		runs = append(runs, timed.Run{Name: name, Steps: p.Steps, Training: train.Training{Model: p.Model, Batch: batch, Setup: setup}})
	}
	for _, c := range s.cells() {
		setup, batch := s.setup(c, p)
		add(c.name(), setup, batch)
	}
	setup, _ := s.setup(scalingCell{weak, 2, false}, p)
	setup.Partitions, setup.MicroBatches = 2, s.PictureM
	add(scalingPicture, setup, 2*s.PictureM*p.Examples)
	return runs
}

func (s *scalingSpec) show(r *timed.Reporting[scalingProfile]) (shown.Rows, error) {
	var rows []shown.Values
	for _, c := range s.cells() {
		_, batch := s.setup(c, r.Profile)
		per := 1 // of the same mini-batch, not of R times as many examples
		if c.kind == strong {
			per = c.r
		}
		rows = append(rows, shown.Values{
			"kind": c.kind, "update": lab.DividedOrWhole(c.divided), "divided": c.divided, "R": c.r, "batch": batch, "per": per,
			"step": r.Runs[c.name()].Rounds, "speedup": timed.Over(r.Runs, c.base(), c.name()), "before": timed.Over(r.Refs, c.base(), c.name()),
			"whole": r.Runs[scalingCell{c.kind, c.r, false}.name()].Rounds, "reduction": r.Runs[c.name()].Shares(func(p clock.Parts) float64 { return p.Reduction }),
		})
	}
	caption := fmt.Sprintf("One step of two replicas of two stages (K = 2, M = %d in each), emulated", s.PictureM)
	var err error
	r.Files, err = r.Runs[scalingPicture].Drawn(s.Experiment+"-R2-K2", caption, caption)
	return shown.Rows{"": rows}, err
}
