package beyond

import (
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
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
type replicasScaling struct {
	timed.Timed[scalingSpec, scalingProfile]
}

func newReplicasScaling() (lab.Experiment, error) {
	s := &replicasScaling{}
	s.Runs, s.Show = s.runs, s.show
	return s, nil
}

func (s *replicasScaling) Resolve() *lab.Problem { return s.CheckRuns() }

const weakScaling, strongScaling = "weak", "strong"

// scalingUpdate names how weights are updated.
func scalingUpdate(divided bool) string {
	if divided {
		return "divided"
	}
	return "whole"
}

const scalingPicture = "picture/R=2/K=2"

// scalingCell is a row of the table.
type scalingCell struct {
	kind    string
	r       int
	divided bool
}

func (c scalingCell) name() string {
	return fmt.Sprintf("%s/R=%d/update=%s", c.kind, c.r, scalingUpdate(c.divided))
}

// base is the run that a cell is compared with: one replica.
func (c scalingCell) base() string { return scalingCell{c.kind, 1, false}.name() }

// cells are the table's, in its order. One replica has nothing to divide.
func (s *scalingSpec) cells() (all []scalingCell) {
	for _, kind := range []string{weakScaling, strongScaling} {
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

// setup is that of a cell, which has a mini-batch of that many examples.
func (s *replicasScaling) setup(c scalingCell, p scalingProfile) (of train.Setup, batch int) {
	most := slices.Max(s.Spec.Replicas)
	of = train.Setup{
		Partitions: 1, MicroBatches: s.Spec.M, Replicas: c.r, Groups: c.r, ShardUpdate: c.divided,
		Checkpoint: lab.Named(schedule.ParseCheckpoint, s.Spec.Checkpoint), Device: gpipe.Emulated, Threads: 1,
	}
	if c.kind == weakScaling {
		return of, c.r * p.Examples
	}
	of.Groups = most
	return of, most * p.Examples
}

func (s *replicasScaling) runs(p scalingProfile) (runs []timed.Run) {
	add := func(name string, setup train.Setup, batch int) {
		runs = append(runs, timed.Run{Name: name, Steps: p.Steps, Training: train.Training{Model: p.Model, Batch: batch, Setup: setup}})
	}
	for _, c := range s.Spec.cells() {
		setup, batch := s.setup(c, p)
		add(c.name(), setup, batch)
	}
	setup, _ := s.setup(scalingCell{weakScaling, 2, false}, p)
	setup.Partitions, setup.MicroBatches = 2, s.Spec.PictureM
	add(scalingPicture, setup, 2*s.Spec.PictureM*p.Examples)
	return runs
}

func (s *replicasScaling) show(r *timed.Reporting[scalingProfile]) error {
	p := r.Profile
	most := slices.Max(s.Spec.Replicas)
	r.Table.Caption = []string{
		fmt.Sprintf("Measured as %v, K = 1, M = %d in each group, checkpoint %s, %s, one thread a device; no links. Weak: %d examples a replica, one group each. Strong: a mini-batch of %d in %d groups, whatever R, so the trained weights are the same to the bit.",
			p.Model, s.Spec.M, s.Spec.Checkpoint, s.Spec.Optimizer, p.Examples, most*p.Examples, most),
		timed.EmulatedCaption(p.Rounds, "row"),
		"Efficiency: throughput over that of R = 1, divided by R. All-reduce: the share of the step that adds up groups and replicas and, after divided updates, hands on weights. Divided / whole: throughput with divided updates over that with whole ones.",
	}
	seconds := func(c scalingCell) []float64 { return r.Runs[c.name()].Rounds }
	batch := func(c scalingCell) int {
		_, n := s.setup(c, p)
		return n
	}
	timed.Fill(r.Table, s.Spec.cells(),
		timed.Text("scaling", func(c scalingCell) any { return c.kind }),
		timed.Text("update", func(c scalingCell) any { return scalingUpdate(c.divided) }),
		timed.Number("R", func(c scalingCell) any { return c.r }),
		timed.Number("mini-batch", func(c scalingCell) any { return batch(c) }),
		timed.Times("measured step", seconds),
		timed.Number("examples/s", func(c scalingCell) any { return lab.Fixed(float64(batch(c))/stats.Median(seconds(c)), 1) }),
		timed.Column[scalingCell]{Heads: []string{"measured efficiency", "95%, efficiency"}, Cells: func(c scalingCell) any { return scalingEfficiency(r.Runs, c) }},
		timed.Percents("measured all-reduce", 1, func(c scalingCell) []float64 {
			return r.Runs[c.name()].Shares(func(p clock.Parts) float64 { return p.Reduction })
		}),
		timed.Ratios("measured divided / whole", func(c scalingCell) (whole, divided []float64) {
			if !c.divided {
				return nil, nil
			}
			return seconds(scalingCell{c.kind, c.r, false}), seconds(c)
		}),
		timed.ReferredTo(r, " efficiency", func(refs map[string]*timed.Measured, c scalingCell) any { return scalingEfficiency(refs, c)[0] }))
	for _, of := range [][2]string{{"measured efficiency", "efficiency"}, {"measured all-reduce", "all-reduce, % of the step"}} {
		r.Panels = append(r.Panels, plot.OneScale(plot.TableGroups{
			Panel: "scaling", Group: "R", By: "update", Column: of[0], PanelTitle: "%s scaling", Title: "R = %s", Name: "measured, %s update", Y: of[1],
		}.Panels(r.Table))...)
	}
	caption := fmt.Sprintf("One step of two replicas of two stages (K = 2, M = %d in each), emulated", s.Spec.PictureM)
	var err error
	r.Files, err = r.Runs[scalingPicture].Drawn(s.ID()+"-R2-K2", caption, caption)
	return err
}

// scalingEfficiency is a cell's, with its interval.
func scalingEfficiency(runs map[string]*timed.Measured, c scalingCell) []lab.Value {
	e := stats.RatioOf(runs[c.base()].Rounds, runs[c.name()].Rounds)
	if c.kind == strongScaling { // of the same mini-batch, not of R times as many examples
		e.Median, e.Lo, e.Hi = e.Median/float64(c.r), e.Lo/float64(c.r), e.Hi/float64(c.r)
	}
	return lab.Ratio(e, c.name() == c.base())
}
