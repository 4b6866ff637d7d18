package breakdown

import (
	"fmt"
	"strings"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// partNames are the parts of a step, from the bottom of a bar up. The paper has
// no name for two of ours.
var partNames = []struct {
	name  string
	of    func(*timeline.Parts) float64
	paper func(*paperShares) *suite.Verbatim
}{
	{"computation", func(p *timeline.Parts) float64 { return p.Computation }, func(p *paperShares) *suite.Verbatim { return &p.Computation }},
	{"recompute", func(p *timeline.Parts) float64 { return p.Recompute }, func(p *paperShares) *suite.Verbatim { return &p.Recompute }},
	{"bubble", func(p *timeline.Parts) float64 { return p.Bubble }, func(p *paperShares) *suite.Verbatim { return &p.Bubble }},
	{"load imbalance", func(p *timeline.Parts) float64 { return p.Imbalance }, func(p *paperShares) *suite.Verbatim { return &p.Imbalance }},
	{"setup", func(p *timeline.Parts) float64 { return p.Setup }, func(p *paperShares) *suite.Verbatim { return &p.Setup }},
	{"weight update", func(p *timeline.Parts) float64 { return p.Update }, func(p *paperShares) *suite.Verbatim { return &p.Update }},
	{"communication", func(p *timeline.Parts) float64 { return p.Communication }, nil},
	{"barrier", func(p *timeline.Parts) float64 { return p.Barrier }, nil},
}

// theoryParts is the breakdown of even stages and f:r:b = 1:1:2.
func theoryParts(s workload.Setup) (timeline.Parts, error) {
	lists, err := schedule.Build(s.Schedule, s.Partitions, s.MicroBatches, s.Checkpoint, s.LateRecompute)
	if err != nil {
		return timeline.Parts{}, err
	}
	return timeline.Breakdown(lists, timeline.Costs{Task: func(_ place.Place, t schedule.Task) float64 {
		if t.Kind == schedule.Backward {
			return 2
		}
		return 1
	}})
}

func (b *Breakdown) Report(log, reference *records.Log) (*suite.Report, error) {
	profile, err := suite.ProfileOf(b.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	timed := b.Rounds(profile)
	runs, err := timed.All(log)
	if err != nil {
		return nil, err
	}
	table := &suite.Table{
		ID: "breakdown", Title: b.Spec.Title,
		Caption: []string{
			fmt.Sprintf("Measured as %v, mini-batch %d, M = %d, everything recomputed, early; whole layers cut by %v over %v; free links, one thread a device, %s.",
				profile.Model, profile.Batch, b.Spec.M, b.setup(1, 1).Partitioner, b.setup(1, 1).Cost, b.Spec.Optimizer),
			fmt.Sprintf("Emulated devices: every task runs alone and is timed, a kind of task takes the median of its repeats over %d rounds; in brackets the 95%% interval of order statistics of the rounds' shares.", profile.Rounds),
			"Parts of the step, averaged over devices, by replays of the schedule, each with one thing more: even stages without links (bubble), the stages' true times (load imbalance), links (communication), the barrier before the update. They add up to the step; none is a remainder.",
			"Theory: the same replays for even stages, f:r:b = 1:1:2, and nothing else.",
			"Source of the paper's values: " + b.Spec.Source + ". It has no part for the last two: its weight update is the remainder.",
		},
	}
	table.Texts("part")
	refs := rounds.References(table, reference, b.Spec.Profiles, func(log *records.Log, p breakdownProfile) (map[string]*rounds.Measured, error) {
		return b.Rounds(p).All(log)
	})
	// A column is a breakdown; the paper's is not in seconds. One of the measured
	// has another beside it, of the intervals.
	type column struct {
		name   string
		parts  timeline.Parts
		paper  *paperShares
		rounds []timeline.Parts // of intervals
	}
	drawn := func(c column) bool { return c.rounds == nil && !strings.HasPrefix(c.name, "reference") }
	var columns []column
	parts := rounds.PartsTable("breakdown-steps", "Figure 4: the measured steps", "run")
	for _, k := range b.Spec.K {
		if k == b.Spec.Paper.K {
			columns = append(columns, column{name: fmt.Sprintf("paper, K = %d", k), paper: &b.Spec.Paper})
		}
		theory, err := theoryParts(b.setup(k, b.Spec.M))
		if err != nil {
			return nil, err
		}
		columns = append(columns,
			column{name: fmt.Sprintf("theory, K = %d", k), parts: theory},
			column{name: fmt.Sprintf("measured, K = %d", k), parts: runs[BreakdownRun(k)].Parts},
			column{name: fmt.Sprintf("95%%, K = %d", k), rounds: runs[BreakdownRun(k)].Shares})
		if refs != nil {
			columns = append(columns, column{name: fmt.Sprintf("reference, K = %d", k), parts: refs[BreakdownRun(k)].Parts})
		}
	}
	for _, run := range timed.Runs {
		parts.Add(run.Name, runs[run.Name].Cells(run.Training.Setup))
	}
	bars := plot.BarPanel{Stacked: true, Y: "share of the step (%)"}
	for _, c := range columns {
		table.Numbers(c.name)
		if drawn(c) {
			bars.Names = append(bars.Names, strings.Replace(c.name, ", ", "\n", 1))
		}
	}
	for _, part := range partNames {
		row := []any{part.name}
		series := plot.BarSeries{Name: part.name}
		for _, c := range columns {
			cell, share := suite.Absent, 0.0
			switch {
			case c.rounds != nil:
				var shares []float64
				for _, p := range c.rounds {
					shares = append(shares, part.of(&p)/p.Step)
				}
				cell = suite.Bracketed(shares, func(x float64) suite.Value { return suite.Share(x, 1) })
				if of := cell.Interval; of != nil {
					series.Spread = append(series.Spread, plot.Spread{Group: len(series.Values) - 1, Lo: of[0], Hi: of[1]}) // of the bar before
				}
			case c.paper == nil:
				cell = suite.Share(part.of(&c.parts), c.parts.Step)
				share = cell.Numbers[0]
			case part.paper != nil:
				cell = suite.Joined("%v%%", part.paper(c.paper))
				share = cell.Numbers[0]
			}
			row = append(row, cell)
			if drawn(c) {
				series.Add(share)
			}
		}
		table.Add(row...)
		bars.Series = append(bars.Series, series)
	}
	table.Notes = append(table.Notes, timed.Notes(log, gpipe.Emulated)...)
	parts.Notes = suite.FewRoundsNote(timed.Count)
	if refs != nil {
		table.Notes = append(table.Notes, suite.ReferenceNote(reference))
	}
	report := &suite.Report{Tables: []*suite.Table{table, parts}}
	if report.Files, err = timed.Files(log, "breakdown", b.Spec.Title, []plot.Axes{&bars}); err != nil {
		return nil, err
	}
	picture, err := b.picture(profile, runs)
	report.Files = append(report.Files, picture)
	return report, err
}

// picture draws a step of naive model parallelism above one of GPipe: the
// paper's Figure 2b and c, of a network that was run.
func (b *Breakdown) picture(profile breakdownProfile, runs map[string]*rounds.Measured) (suite.File, error) {
	naive, err := runs[pictureNaive].Times.Replay()
	if err != nil {
		return suite.File{}, err
	}
	pipelined, err := runs[pictureGPipe].Times.Replay()
	if err != nil {
		return suite.File{}, err
	}
	var text strings.Builder
	err = timeline.WriteSVG(&text,
		timeline.Drawing{Caption: fmt.Sprintf("Naive model parallelism: %s, K = %d, M = 1", profile.Model.Name, b.Spec.Picture.K), Timeline: naive},
		timeline.Drawing{Caption: fmt.Sprintf("GPipe: the same network and mini-batch, K = %d, M = %d", b.Spec.Picture.K, b.Spec.Picture.M), Timeline: pipelined},
	)
	return suite.File{Name: "timeline.svg", Text: text.String()}, err
}
