// Package measured times the share of the weight update in steps on emulated replicas, with
// and without dividing it over them.
package measured

import (
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/stats"
	"gpipebench/nn"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "update-measured", Folder: folder, New: load, Command: "update-sharding"}

// spec is spec.yaml.
type spec struct {
	rounds.Spec[profile] `yaml:",inline"`
	Replicas             []int     `yaml:"replicas" want:"1..64"`
	Networks             []network `yaml:"networks"`
}

// network is one of the paper's, on one core of many.
type network struct {
	ID        string         `yaml:"id" want:"id,key"`
	Name      string         `yaml:"name" want:"name"`
	Optimizer string         `yaml:"optimizer" want:"optimizer"`
	Of        workload.Model `yaml:"of"`
	Examples  int            `yaml:"examples" want:"1..65536"`
	Paper     suite.Verbatim `yaml:"paper"` // percent of a step
}

type profile struct {
	rounds.Profile `yaml:",inline"`
	Networks       []small `yaml:"networks"` // one for each of the spec's
	Steps          int     `yaml:"steps" want:"1..1000"`
}

// small is a network of the same proportion.
type small struct {
	Model    workload.Model `yaml:"model"`
	Examples int            `yaml:"examples" want:"1..65536"` // of a replica
}

type measured struct {
	rounds.Timed[spec, profile]
}

func load() (suite.Experiment, error) {
	x := &measured{}
	x.Runs, x.Show = x.runs, x.show
	return x, nil
}

func (x *measured) Resolve() *suite.Problem {
	if r := x.Spec.Replicas; r[0] != 1 || !slices.IsSorted(r) || len(r) < 2 {
		return suite.At(errors.New("want 1 first, then others in ascending order"), "replicas")
	}
	for _, name := range suite.Profiles {
		if n := len(x.Spec.Profiles[name].Networks); n != len(x.Spec.Networks) {
			return suite.At(fmt.Errorf("%d networks: want one for each of the %d above", n, len(x.Spec.Networks)), "profiles", name, "networks")
		}
	}
	return x.CheckRuns()
}

// cell is a row of the table: a network on so many replicas.
type cell struct {
	network int
	r       int
	divided bool
}

func (x *measured) name(c cell) string {
	return fmt.Sprintf("%s/R=%d/update=%s", x.Spec.Networks[c.network].ID, c.r, update(c.divided))
}

// update names how weights are updated.
func update(divided bool) string {
	if divided {
		return "divided"
	}
	return "whole"
}

// cells are the table's, in its order. One replica has nothing to divide.
func (s *spec) cells() (all []cell) {
	for i := range s.Networks {
		for _, r := range s.Replicas {
			all = append(all, cell{i, r, false})
			if r > 1 {
				all = append(all, cell{i, r, true})
			}
		}
	}
	return all
}

func (x *measured) runs(p profile) (runs []rounds.Run) {
	for _, c := range x.Spec.cells() {
		if c.network >= len(p.Networks) {
			continue // Resolve refuses it
		}
		of := p.Networks[c.network]
		runs = append(runs, rounds.Run{Name: x.name(c), Steps: p.Steps, Training: workload.Training{
			Model: of.Model, Batch: c.r * of.Examples, Optimizer: x.Spec.Networks[c.network].Optimizer,
			Setup: workload.Setup{
				Partitions: 1, MicroBatches: 1, Replicas: c.r, Groups: c.r, ShardUpdate: c.divided,
				Checkpoint: schedule.Never, Device: gpipe.Emulated, Threads: 1,
			},
		}})
	}
	return runs
}

// proportion is a network's parameters for each million operations of a core's step, of
// which a backward pass has twice those of a forward pass.
func proportion(m workload.Model, examples int) (float64, error) {
	layers, err := m.Build()
	if err != nil {
		return 0, err
	}
	loss, err := m.Loss(0)
	if err != nil {
		return 0, err
	}
	in := m.Input(1)
	p, err := workload.Setup{Partitions: 1, MicroBatches: 1, Checkpoint: schedule.Never}.Uncut(layers, loss, in)
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

// memory is what replicas have together or at most, of a plan.
type memory struct {
	state int64 // the optimiser's, of all replicas
	most  int64 // the same, of the replica with most
	peak  int64 // of the replica with most
}

func planned(t workload.Training) (m memory, err error) {
	plans, err := t.Plans()
	for _, p := range plans {
		m.state += p.Bytes[gpipe.OptimizerState]
		m.most, m.peak = max(m.most, p.Bytes[gpipe.OptimizerState]), max(m.peak, p.Peak)
	}
	return m, err
}

func (x *measured) show(r *rounds.Reporting[profile]) error {
	p := r.Profile
	r.Table.Caption = []string{
		"Measured with one thread a device, K = 1, nothing recomputed, no links; each replica has one micro-batch of its own examples, and one group. Update: the share of the step in which a replica updates weights, all of them or, divided, its part. Sums: that of adding up groups' gradients and, divided, of handing on new weights.",
		rounds.EmulatedCaption(p.Rounds, "row"),
		"Whole / divided: the step's time with whole updates over that with divided ones. State: the optimiser's, of the replica with most; all: of all replicas together. Expected: the share that the R = 1 update, divided by R, has in the step that is measured without sharding, if nothing else changed.",
	}
	r.Table.Texts("network", "update")
	r.Table.Numbers("R", "mini-batch", "measured step", "95%, step", "measured update", "95%, update", "expected update", "measured sums", "measured whole / divided", "95%, whole / divided", "paper, whole", "state", "state, all", "peak")
	r.Table.Texts("as planned")
	r.ReferenceColumns(" update")
	r.Parts = &suite.Table{ID: x.ID() + "-sizes", Title: "Weight-update sharding: the networks and their proportions", Caption: []string{
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
		ours, err := proportion(of.Model, of.Examples)
		if err != nil {
			return err
		}
		paper, err := proportion(n.Of, n.Examples)
		if err != nil {
			return err
		}
		r.Parts.Add(n.Name, fmt.Sprint(of.Model), n.Optimizer, nn.CountParams(layers), of.Examples, suite.Fixed(ours, 1), suite.Fixed(paper, 1), suite.Fixed(ours/paper, 3))
	}
	for _, run := range r.Rounds.Runs {
		i := slices.IndexFunc(x.Spec.cells(), func(c cell) bool { return x.name(c) == run.Name })
		c := x.Spec.cells()[i]
		m, err := planned(run.Training)
		if err != nil {
			return err
		}
		of, n := r.Runs[run.Name], x.Spec.Networks[c.network]
		steps, err := of.Shares()
		if err != nil {
			return err
		}
		share := func(part func(timeline.Parts) float64) (all []float64) {
			for _, parts := range steps {
				all = append(all, part(parts)/parts.Step)
			}
			return all
		}
		percent := func(s float64) suite.Value { return suite.Percent(s, 2) }
		row := []any{
			n.Name, update(c.divided), c.r, run.Training.Batch, suite.Median(of.Rounds, suite.Seconds),
			suite.Median(share(func(p timeline.Parts) float64 { return p.Update }), percent),
		}
		if c.divided {
			one, whole := r.Runs[x.name(cell{c.network, 1, false})], r.Runs[x.name(cell{c.network, c.r, false})]
			least := one.Parts.Update / float64(c.r)
			row = append(row, percent(least/(whole.Parts.Step-whole.Parts.Update+least)))
		} else {
			row = append(row, suite.Absent)
		}
		row = append(row, suite.Percent(stats.Median(share(func(p timeline.Parts) float64 { return p.Reduction })), 1))
		if c.divided {
			row = append(row, suite.Ratio(stats.RatioOf(r.Runs[x.name(cell{c.network, c.r, false})].Rounds, of.Rounds), false))
		} else {
			row = append(row, suite.Absent, suite.Absent)
		}
		paper := suite.Absent
		if !c.divided && c.r == slices.Max(x.Spec.Replicas) {
			paper = suite.Value{Text: n.Paper.Text + "%", Numbers: []float64{n.Paper.Value}}
		}
		row = append(row, paper, suite.Bytes(m.most), suite.Bytes(m.state), suite.Bytes(m.peak), suite.YesOrNo(of.Exact() && slices.Max(of.Peak) == m.peak))
		if r.Refs != nil {
			row = append(row, percent(r.Refs[run.Name].Parts.Update/r.Refs[run.Name].Parts.Step))
		}
		r.Table.Add(row...)
	}
	r.Panels = x.panels(r.Table)
	return nil
}

// panels draw the update's share by replicas, of each network.
func (x *measured) panels(t *suite.Table) (all []plot.Axes) {
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
					series.AddValue(suite.Absent)
				}
			}
			bars.Series = append(bars.Series, series)
		}
		all = append(all, bars)
	}
	return all
}
