package beyond

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline/draw"
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
	Replicas                   []int  `yaml:"replicas" want:"1..64"`
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

func (s *replicasScaling) Resolve() *lab.Problem {
	if s.Spec.Replicas[0] != 1 {
		return lab.At(errors.New("want 1 first: others are compared with it"), "replicas")
	}
	most := slices.Max(s.Spec.Replicas)
	for _, r := range s.Spec.Replicas {
		if each := most / r; most%r != 0 || r > 1 && each&(each-1) != 0 {
			return lab.At(fmt.Errorf("%d replicas of %d groups: want each to have a power of two of them", r, most), "replicas")
		}
	}
	for _, name := range lab.Profiles {
		if n := s.Spec.Profiles[name].Examples; n%s.Spec.M != 0 {
			return lab.At(fmt.Errorf("%d micro-batches of %d examples are not of one size", s.Spec.M, n), "profiles", name, "examples")
		}
	}
	return s.CheckRuns()
}

const weakScaling, strongScaling = "weak", "strong"

// scalingUpdate names how weights are updated.
func scalingUpdate(divided bool) string {
	if divided {
		return "divided"
	}
	return "whole"
}

func scalingRun(kind string, r int, divided bool) string {
	return fmt.Sprintf("%s/R=%d/update=%s", kind, r, scalingUpdate(divided))
}

const scalingPicture = "picture/R=2/K=2"

// scalingCell is a row of the table.
type scalingCell struct {
	kind    string
	r       int
	divided bool
}

func (c scalingCell) name() string { return scalingRun(c.kind, c.r, c.divided) }

// base is the run that a cell is compared with: one replica.
func (c scalingCell) base() string { return scalingRun(c.kind, 1, false) }

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
	r.Table.Texts("scaling", "update")
	r.Table.Numbers("R", "mini-batch", "measured step", "95%, step", "examples/s", "measured efficiency", "95%, efficiency", "measured all-reduce", "95%, all-reduce", "measured divided / whole", "95%, divided / whole")
	r.ReferenceColumns(" efficiency")
	r.Parts = &lab.Table{ID: s.ID() + "-steps", Title: "Replicas: where the measured steps' time goes", Caption: []string{
		"Shares of the step, averaged over devices; they add up to the whole. Every kind of task takes the median of its repeats over all rounds.",
	}}
	r.Parts.Texts("scaling", "update")
	r.Parts.Numbers("R", "K", "step", "computation", "recompute", "sums over groups and replicas", "updating", "setup", "bubble", "imbalance", "barrier", "largest peak")
	for _, c := range s.Spec.cells() {
		run := r.Runs[c.name()]
		_, batch := s.setup(c, p)
		all, err := run.Shares()
		if err != nil {
			return err
		}
		var shares []float64
		for _, parts := range all {
			shares = append(shares, parts.Reduction/parts.Step)
		}
		row := []any{
			c.kind, scalingUpdate(c.divided), c.r, batch, lab.Median(run.Rounds, lab.Seconds), lab.Fixed(float64(batch)/stats.Median(run.Rounds), 1),
			scalingEfficiency(r.Runs, c), lab.Median(shares, func(x float64) lab.Value { return lab.Percent(x, 1) }),
		}
		if c.divided {
			row = append(row, timed.Relative(r.Runs, scalingRun(c.kind, c.r, false), c.name()))
		} else {
			row = append(row, lab.Absent, lab.Absent)
		}
		if r.Refs != nil {
			row = append(row, scalingEfficiency(r.Refs, c)[0])
		}
		r.Table.Add(row...)
		scalingParts(r.Parts, c, 1, run)
	}
	scalingParts(r.Parts, scalingCell{"picture", 2, false}, 2, r.Runs[scalingPicture])
	r.Panels = s.panels(r.Table)
	return s.draw(r)
}

// scalingEfficiency is a cell's, with its interval.
func scalingEfficiency(runs map[string]*timed.Measured, c scalingCell) []lab.Value {
	e := stats.RatioOf(runs[c.base()].Rounds, runs[c.name()].Rounds)
	if c.kind == strongScaling { // of the same mini-batch, not of R times as many examples
		e.Median, e.Lo, e.Hi = e.Median/float64(c.r), e.Lo/float64(c.r), e.Hi/float64(c.r)
	}
	return lab.Ratio(e, c.name() == c.base())
}

// scalingParts adds where a run's time goes.
func scalingParts(t *lab.Table, c scalingCell, k int, run *timed.Measured) {
	p := run.Parts
	share := func(x float64) lab.Value { return lab.Share(x, p.Step) }
	t.Add(c.kind, scalingUpdate(c.divided), c.r, k, lab.Seconds(p.Step), share(p.Computation), share(p.Recompute), share(p.Reduction),
		share(p.Update), share(p.Setup), share(p.Bubble), share(p.Imbalance), share(p.Barrier), lab.Bytes(slices.Max(run.Peak)))
}

// panels show efficiencies and shares of the all-reduce.
func (s *replicasScaling) panels(t *lab.Table) (all []plot.Axes) {
	for _, column := range []string{"measured efficiency", "measured all-reduce"} {
		y := map[string]string{"measured efficiency": "efficiency", "measured all-reduce": "all-reduce, % of the step"}[column]
		var of []plot.Axes
		for _, kind := range []string{weakScaling, strongScaling} {
			bars := &plot.BarPanel{Title: kind + " scaling", Y: y}
			for _, r := range s.Spec.Replicas {
				bars.Names = append(bars.Names, fmt.Sprintf("R = %d", r))
			}
			for _, how := range []string{"whole", "divided"} {
				series := plot.BarSeries{Name: "measured, " + how + " update"}
				for _, row := range t.Rows {
					switch {
					case row[0].Text != kind:
					case row[1].Text == how:
						series.AddValue(row[t.Column(column)])
					case how == "divided" && row[2].Numbers[0] == 1:
						series.AddValue(lab.Absent)
					}
				}
				bars.Series = append(bars.Series, series)
			}
			of = append(of, bars)
		}
		all = append(all, plot.OneScale(of)...)
	}
	return all
}

// draw draws the step of two replicas of two stages, and writes it as a trace.
func (s *replicasScaling) draw(r *timed.Reporting[scalingProfile]) error {
	tl, err := r.Runs[scalingPicture].Times.Replay()
	if err != nil {
		return err
	}
	caption := fmt.Sprintf("One step of two replicas of two stages (K = 2, M = %d in each), emulated", s.Spec.PictureM)
	var text, trace, svg bytes.Buffer
	fmt.Fprintf(&text, "%s; every kind of task at its median.\n\n", caption)
	if err := draw.WriteText(&text, tl, 120); err != nil {
		return err
	}
	if err := draw.WriteSVG(&svg, draw.Drawing{Caption: caption, Timeline: tl}); err != nil {
		return err
	}
	if err := draw.WriteChrome(&trace, tl, nil); err != nil {
		return err
	}
	name := s.ID() + "-R2-K2"
	r.Files = []lab.File{{Name: name + ".timeline.svg", Text: svg.String()}, {Name: name + ".timeline.txt", Text: text.String()}, {Name: name + ".trace.json", Text: trace.String()}}
	return nil
}
