package mlperf

import (
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/timed"
	"gpipebench/nn"
	"gpipebench/train"
)

// updateMeasuredSpec is the spec of update-measured.
type updateMeasuredSpec struct {
	timed.Spec[updateMeasuredProfile] `yaml:",inline"`
	Replicas                          []int                   `yaml:"replicas" want:"1..64"`
	Networks                          []updateMeasuredNetwork `yaml:"networks"`
}

// updateMeasuredNetwork is one of the paper's, on one core of many.
type updateMeasuredNetwork struct {
	ID        string       `yaml:"id" want:"id,key"`
	Name      string       `yaml:"name" want:"name"`
	Optimizer string       `yaml:"optimizer" want:"optimizer"`
	Of        train.Model  `yaml:"of"`
	Examples  int          `yaml:"examples" want:"1..65536"`
	Paper     lab.Verbatim `yaml:"paper"` // percent of a step
}

type updateMeasuredProfile struct {
	timed.Profile `yaml:",inline"`
	Networks      []smallNetwork `yaml:"networks"` // one for each of the spec's
	Steps         int            `yaml:"steps" want:"1..1000"`
}

// smallNetwork is a network of the same proportion.
type smallNetwork struct {
	Model    train.Model `yaml:"model"`
	Examples int         `yaml:"examples" want:"1..65536"` // of a replica
}

type updateMeasured struct {
	timed.Timed[updateMeasuredSpec, updateMeasuredProfile]
}

func newUpdateMeasured() (lab.Experiment, error) {
	x := &updateMeasured{}
	x.Runs, x.Show = x.runs, x.show
	return x, nil
}

func (x *updateMeasured) Resolve() *lab.Problem {
	if r := x.Spec.Replicas; r[0] != 1 || !slices.IsSorted(r) || len(r) < 2 {
		return lab.At(errors.New("want 1 first, then others in ascending order"), "replicas")
	}
	for _, name := range lab.Profiles {
		if n := len(x.Spec.Profiles[name].Networks); n != len(x.Spec.Networks) {
			return lab.At(fmt.Errorf("%d networks: want one for each of the %d above", n, len(x.Spec.Networks)), "profiles", name, "networks")
		}
	}
	return x.CheckRuns()
}

// updateCell is a row of the table: a network on so many replicas.
type updateCell struct {
	network int
	r       int
	divided bool
}

func (x *updateMeasured) name(c updateCell) string {
	return fmt.Sprintf("%s/R=%d/update=%s", x.Spec.Networks[c.network].ID, c.r, updateHow(c.divided))
}

// updateHow names how weights are updated.
func updateHow(divided bool) string {
	if divided {
		return "divided"
	}
	return "whole"
}

// cells are the table's, in its order. One replica has nothing to divide.
func (s *updateMeasuredSpec) cells() (all []updateCell) {
	for i := range s.Networks {
		for _, r := range s.Replicas {
			all = append(all, updateCell{i, r, false})
			if r > 1 {
				all = append(all, updateCell{i, r, true})
			}
		}
	}
	return all
}

func (x *updateMeasured) runs(p updateMeasuredProfile) (runs []timed.Run) {
	for _, c := range x.Spec.cells() {
		if c.network >= len(p.Networks) {
			continue // Resolve refuses it
		}
		of := p.Networks[c.network]
		runs = append(runs, timed.Run{Name: x.name(c), Steps: p.Steps, Training: train.Training{
			Model: of.Model, Batch: c.r * of.Examples, Optimizer: x.Spec.Networks[c.network].Optimizer,
			Setup: train.Setup{
				Partitions: 1, MicroBatches: 1, Replicas: c.r, Groups: c.r, ShardUpdate: c.divided,
				Checkpoint: schedule.Never, Device: gpipe.Emulated, Threads: 1,
			},
		}})
	}
	return runs
}

// updateProportion is a network's parameters for each million operations of a core's step, of
// which a backward pass has twice those of a forward pass.
func updateProportion(m train.Model, examples int) (float64, error) {
	layers, err := m.Build()
	if err != nil {
		return 0, err
	}
	loss, err := m.Loss(0)
	if err != nil {
		return 0, err
	}
	in := m.Input(1)
	p, err := train.Setup{Partitions: 1, MicroBatches: 1, Checkpoint: schedule.Never}.Uncut(layers, loss, in)
	if err != nil {
		return 0, err
	}
	d, err := p.Describe(in)
	if err != nil {
		return 0, err
	}
	var forward float64
	for _, l := range d.Layers {
		forward += float64(l.FLOPs)
	}
	return 1e6 * float64(d.Params) / (3 * forward * float64(examples)), nil
}

// replicaMemory is what replicas have together or at most, of a plan.
type replicaMemory struct {
	state int64 // the optimiser's, of all replicas
	most  int64 // the same, of the replica with most
	peak  int64 // of the replica with most
}

func plannedMemory(t train.Training) (m replicaMemory, err error) {
	plans, err := t.Plans()
	for _, p := range plans {
		m.state += p.Bytes[gpipe.OptimizerState]
		m.most, m.peak = max(m.most, p.Bytes[gpipe.OptimizerState]), max(m.peak, p.Peak)
	}
	return m, err
}

func (x *updateMeasured) show(r *timed.Reporting[updateMeasuredProfile]) error {
	p := r.Profile
	r.Table.Caption = []string{
		"Measured with one thread a device, K = 1, nothing recomputed, no links; each replica has one micro-batch of its own examples, and one group. Update: the share of the step in which a replica updates weights, all of them or, divided, its part. Sums: that of adding up groups' gradients and, divided, of handing on new weights.",
		timed.EmulatedCaption(p.Rounds, "row"),
		"Whole / divided: the step's time with whole updates over that with divided ones. State: the optimiser's, of the replica with most; all: of all replicas together. Expected: the share that the R = 1 update, divided by R, has in the step that is measured without sharding, if nothing else changed.",
	}
	r.Table.Texts("network", "update")
	r.Table.Numbers("R", "mini-batch", "measured step", "95%, step", "measured update", "95%, update", "expected update", "measured sums", "measured whole / divided", "95%, whole / divided", "paper, whole", "state", "state, all", "peak")
	r.Table.Texts("as planned")
	r.ReferenceColumns(" update")
	r.Parts = &lab.Table{ID: x.ID() + "-sizes", Title: "Weight-update sharding: the networks and their proportions", Caption: []string{
		"Parameters for each million floating-point operations of a core's step: of the paper's network, and of the one that is measured.",
	}}
	r.Parts.Texts("network", "measured as", "optimizer")
	r.Parts.Numbers("parameters", "examples of a replica", "parameters / MFLOP", "paper's parameters / MFLOP", "ours / paper's")
	for i, n := range x.Spec.Networks {
		of := p.Networks[i]
		layers, err := of.Model.Build()
		if err != nil {
			return err
		}
		ours, err := updateProportion(of.Model, of.Examples)
		if err != nil {
			return err
		}
		paper, err := updateProportion(n.Of, n.Examples)
		if err != nil {
			return err
		}
		r.Parts.Add(n.Name, fmt.Sprint(of.Model), n.Optimizer, nn.CountParams(layers), of.Examples, lab.Fixed(ours, 1), lab.Fixed(paper, 1), lab.Fixed(ours/paper, 3))
	}
	for _, run := range r.Rounds.Runs {
		i := slices.IndexFunc(x.Spec.cells(), func(c updateCell) bool { return x.name(c) == run.Name })
		c := x.Spec.cells()[i]
		m, err := plannedMemory(run.Training)
		if err != nil {
			return err
		}
		of, n := r.Runs[run.Name], x.Spec.Networks[c.network]
		steps, err := of.Shares()
		if err != nil {
			return err
		}
		share := func(part func(clock.Parts) float64) (all []float64) {
			for _, parts := range steps {
				all = append(all, part(parts)/parts.Step)
			}
			return all
		}
		percent := func(s float64) lab.Value { return lab.Percent(s, 2) }
		row := []any{
			n.Name, updateHow(c.divided), c.r, run.Training.Batch, lab.Median(of.Rounds, lab.Seconds),
			lab.Median(share(func(p clock.Parts) float64 { return p.Update }), percent),
		}
		if c.divided {
			one, whole := r.Runs[x.name(updateCell{c.network, 1, false})], r.Runs[x.name(updateCell{c.network, c.r, false})]
			least := one.Parts.Update / float64(c.r)
			row = append(row, percent(least/(whole.Parts.Step-whole.Parts.Update+least)))
		} else {
			row = append(row, lab.Absent)
		}
		row = append(row, lab.Percent(stats.Median(share(func(p clock.Parts) float64 { return p.Reduction })), 1))
		if c.divided {
			row = append(row, lab.Ratio(stats.RatioOf(r.Runs[x.name(updateCell{c.network, c.r, false})].Rounds, of.Rounds), false))
		} else {
			row = append(row, lab.Absent, lab.Absent)
		}
		paper := lab.Absent
		if !c.divided && c.r == slices.Max(x.Spec.Replicas) {
			paper = lab.Value{Text: n.Paper.Text + "%", Numbers: []float64{n.Paper.Value}}
		}
		row = append(row, paper, lab.Bytes(m.most), lab.Bytes(m.state), lab.Bytes(m.peak), lab.YesOrNo(of.Exact() && slices.Max(of.Peak) == m.peak))
		if r.Refs != nil {
			row = append(row, percent(r.Refs[run.Name].Parts.Update/r.Refs[run.Name].Parts.Step))
		}
		r.Table.Add(row...)
	}
	r.Panels = x.panels(r.Table)
	return nil
}

// panels draw the update's share by replicas, of each network.
func (x *updateMeasured) panels(t *lab.Table) (all []plot.Axes) {
	for _, n := range x.Spec.Networks {
		bars := &plot.BarPanel{Title: n.Name, Y: "update, % of the step"}
		for _, r := range x.Spec.Replicas {
			bars.Names = append(bars.Names, fmt.Sprintf("R = %d", r))
		}
		for _, how := range []string{"whole", "divided"} {
			series := plot.BarSeries{Name: how}
			for _, row := range t.Rows {
				switch {
				case row[0].Text != n.Name:
				case row[1].Text == how:
					series.AddValue(row[t.Column("measured update")])
				case how == "divided" && row[t.Column("R")].Numbers[0] == 1:
					series.AddValue(lab.Absent)
				}
			}
			bars.Series = append(bars.Series, series)
		}
		all = append(all, bars)
	}
	return all
}
