package gpipe

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// breakdownSpec is the spec of breakdown.
type breakdownSpec struct {
	timed.Spec[breakdownProfile] `yaml:",inline"`
	K                            []int           `yaml:"k" want:"1..1024"`
	M                            int             `yaml:"m" want:"1..65536"`
	Paper                        breakdownShares `yaml:"paper" want:"optional"`
	Picture                      lab.Cell        `yaml:"picture"`
}

// breakdownShares is the paper's breakdown for a K, in percent.
type breakdownShares struct {
	K           int          `yaml:"k" want:"1..1024"`
	Computation lab.Verbatim `yaml:"computation"`
	Recompute   lab.Verbatim `yaml:"recompute"`
	Bubble      lab.Verbatim `yaml:"bubble"`
	Imbalance   lab.Verbatim `yaml:"imbalance"`
	Setup       lab.Verbatim `yaml:"setup"`
	Update      lab.Verbatim `yaml:"update"`
}

type breakdownProfile struct {
	timed.Profile `yaml:",inline"`
	Model         train.Model `yaml:"model"`
	Batch         int         `yaml:"batch"`
}

// breakdown times one network at several K on emulated devices, and draws a step
// with GPipe and one without.
type breakdown = timed.Timed[breakdownSpec, breakdownProfile]

func newBreakdown() (lab.Experiment, error) {
	b := &breakdown{}
	b.Runs, b.Show = b.Spec.runs, b.Spec.show
	return b, nil
}

// The runs of the picture.
const (
	breakdownNaive = "picture/naive"
	breakdownGPipe = "picture/gpipe"
)

func breakdownRun(k int) string { return fmt.Sprintf("K=%d", k) }

func breakdownSetup(k, m int) train.Setup {
	return train.Setup{Partitions: k, MicroBatches: m, Device: gpipe.Emulated, Threads: 1}
}

// runs are one for each K, and the picture's two.
func (b *breakdownSpec) runs(p breakdownProfile) (runs []timed.Run) {
	add := func(name string, s train.Setup) {
		runs = append(runs, timed.Run{Name: name, Steps: 1, Training: train.Training{Model: p.Model, Batch: p.Batch, Setup: s}})
	}
	for _, k := range b.K {
		add(breakdownRun(k), breakdownSetup(k, b.M))
	}
	naive := breakdownSetup(b.Picture.K, 1)
	naive.Schedule, naive.Checkpoint = schedule.Naive, schedule.Never
	add(breakdownNaive, naive)
	add(breakdownGPipe, breakdownSetup(b.Picture.K, b.Picture.M))
	return runs
}

// stepPart is one of a step.
type stepPart struct {
	name  string
	of    func(*clock.Parts) float64
	paper func(breakdownShares) lab.Verbatim // nil: the paper has no name for it
	grey  string                             // of what is idle; "": it has a colour
}

// stepParts are from the bottom of a bar up.
var stepParts = []stepPart{
	{"computation", func(p *clock.Parts) float64 { return p.Computation }, func(p breakdownShares) lab.Verbatim { return p.Computation }, ""},
	{"recompute", func(p *clock.Parts) float64 { return p.Recompute }, func(p breakdownShares) lab.Verbatim { return p.Recompute }, ""},
	{"bubble", func(p *clock.Parts) float64 { return p.Bubble }, func(p breakdownShares) lab.Verbatim { return p.Bubble }, "#e3e3e3"},
	{"load imbalance", func(p *clock.Parts) float64 { return p.Imbalance }, func(p breakdownShares) lab.Verbatim { return p.Imbalance }, "#8f8f8f"},
	{"setup", func(p *clock.Parts) float64 { return p.Setup }, func(p breakdownShares) lab.Verbatim { return p.Setup }, ""},
	{"weight update", func(p *clock.Parts) float64 { return p.Update }, func(p breakdownShares) lab.Verbatim { return p.Update }, ""},
	{"communication", func(p *clock.Parts) float64 { return p.Communication }, nil, ""},
	{"barrier cost", func(p *clock.Parts) float64 { return p.Barrier }, nil, ""},
}

// breakdownColumn is a breakdown; each of the measured has another after it, of intervals.
type breakdownColumn struct {
	name string
	bar  bool // it is drawn
	cell func(stepPart) lab.Value
}

// columns of each K are theory, what was measured and the reference, and once the
// paper's.
func (b *breakdownSpec) columns(r *timed.Reporting[breakdownProfile]) (all []breakdownColumn, err error) {
	for _, k := range b.K {
		add := func(name string, bar bool, cell func(stepPart) lab.Value) {
			all = append(all, breakdownColumn{fmt.Sprintf("%s, K = %d", name, k), bar, cell})
		}
		shares := func(of clock.Parts) func(stepPart) lab.Value {
			return func(p stepPart) lab.Value { return lab.Share(p.of(&of), of.Step) }
		}
		if k == b.Paper.K {
			add("paper", true, func(p stepPart) lab.Value {
				if p.paper == nil {
					return lab.Absent
				}
				if p.name == "weight update" {
					return lab.Joined("(%v%%)", p.paper(b.Paper))
				}
				return p.paper(b.Paper).Printed("%")
			})
		}
		theory, err := timed.EvenParts(breakdownSetup(k, b.M))
		if err != nil {
			return nil, err
		}
		run := r.Runs[breakdownRun(k)]
		add("theory", true, shares(theory))
		add("measured", true, shares(run.Parts))
		add("95%", false, func(p stepPart) lab.Value {
			return lab.Bracketed(run.Shares(func(of clock.Parts) float64 { return p.of(&of) }), func(x float64) lab.Value { return lab.Share(x, 1) })
		})
		if r.Refs != nil {
			add(r.Beside, false, shares(r.Refs[breakdownRun(k)].Parts))
		}
	}
	return all, nil
}

// show adds columns to the table: one for each K has no word.
func (b *breakdownSpec) show(r *timed.Reporting[breakdownProfile]) (shown.Rows, error) {
	columns, err := b.columns(r)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		r.Table.Numbers(c.name)
	}
	var rows []shown.Values
	for _, stepPart := range stepParts {
		var cells []any
		for _, c := range columns {
			cells = append(cells, c.cell(stepPart))
		}
		r.Table.Add(cells...)
		rows = append(rows, shown.Values{"part": stepPart.name})
	}
	r.Panels = breakdownPanels(columns)
	return shown.Rows{"": rows}, b.draw(r)
}

// leastSeen is the smallest part of a step, in percent, that is drawn in a bar of the whole.
const leastSeen = 1

// breakdownPanels are the steps as a whole, and each part by itself: the paper's and the measured
// with their intervals.
func breakdownPanels(columns []breakdownColumn) []plot.Axes {
	whole := &plot.BarPanel{Title: "the whole step", Stacked: true, Printed: true, Y: "share of the step (%)"}
	each := &plot.BarPanel{Title: "each part", Y: "share of the step (%)"}
	for _, stepPart := range stepParts {
		each.Names = append(each.Names, stepPart.name)
		series := plot.BarSeries{Name: stepPart.name}
		if stepPart.grey != "" {
			series.Ink = plot.Ink(stepPart.grey)
		}
		for _, c := range columns {
			if c.bar {
				series.AddValue(c.cell(stepPart))
			}
		}
		// What is nowhere to be seen in a bar has no entry in the legend.
		if slices.ContainsFunc(series.Values, func(v float64) bool { return v >= leastSeen }) {
			whole.Series = append(whole.Series, series)
		}
	}
	for i, c := range columns {
		if !c.bar {
			continue
		}
		whole.Names = append(whole.Names, strings.Replace(c.name, ", ", "\n", 1))
		series := plot.BarSeries{Name: c.name, As: plot.Mark}
		switch {
		case strings.HasPrefix(c.name, "theory"):
			continue
		case strings.HasPrefix(c.name, "paper"):
			series.As = plot.Across
		}
		for _, stepPart := range stepParts {
			cell := c.cell(stepPart)
			if i+1 < len(columns) && strings.HasPrefix(columns[i+1].name, "95%") {
				cell.Interval = columns[i+1].cell(stepPart).Interval
			}
			series.AddValue(cell)
		}
		each.Series = append(each.Series, series)
	}
	return []plot.Axes{whole, each}
}

// draw draws a step of naive model parallelism above one of GPipe: the paper's
// Figure 2b and c, of a network that was run.
func (b *breakdownSpec) draw(r *timed.Reporting[breakdownProfile]) error {
	naive, err := r.Runs[breakdownNaive].Times.Replay()
	if err != nil {
		return err
	}
	pipelined, err := r.Runs[breakdownGPipe].Times.Replay()
	if err != nil {
		return err
	}
	var text strings.Builder
	err = draw.WriteSVG(&text,
		draw.Drawing{Caption: fmt.Sprintf("Naive model parallelism: %s, K = %d, M = 1", r.Profile.Model.Name, b.Picture.K), Timeline: naive},
		draw.Drawing{Caption: fmt.Sprintf("GPipe: the same network and mini-batch, K = %d, M = %d", b.Picture.K, b.Picture.M), Timeline: pipelined},
	)
	r.Files = []lab.File{{Name: "timeline.svg", Text: text.String()}}
	return err
}
