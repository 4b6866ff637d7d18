package experiments

import (
	"fmt"
	"strings"

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
	paper func(*paperShares) *verbatim
}{
	{"computation", func(p *timeline.Parts) float64 { return p.Computation }, func(p *paperShares) *verbatim { return &p.Computation }},
	{"recompute", func(p *timeline.Parts) float64 { return p.Recompute }, func(p *paperShares) *verbatim { return &p.Recompute }},
	{"bubble", func(p *timeline.Parts) float64 { return p.Bubble }, func(p *paperShares) *verbatim { return &p.Bubble }},
	{"load imbalance", func(p *timeline.Parts) float64 { return p.Imbalance }, func(p *paperShares) *verbatim { return &p.Imbalance }},
	{"setup", func(p *timeline.Parts) float64 { return p.Setup }, func(p *paperShares) *verbatim { return &p.Setup }},
	{"weight update", func(p *timeline.Parts) float64 { return p.Update }, func(p *paperShares) *verbatim { return &p.Update }},
	{"communication", func(p *timeline.Parts) float64 { return p.Communication }, nil},
	{"barrier", func(p *timeline.Parts) float64 { return p.Barrier }, nil},
}

// theoryParts is the breakdown of even stages and f:r:b = 1:1:2.
func theoryParts(s Setup) (timeline.Parts, error) {
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

func (b *breakdown) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(b.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	rounds := b.rounds(profile)
	runs, err := rounds.all(log)
	if err != nil {
		return nil, err
	}
	table := &Table{
		ID: "breakdown", Title: b.spec.Title,
		Caption: []string{
			fmt.Sprintf("Measured as %v, mini-batch %d, M = %d, everything recomputed, early; whole layers cut by %v over %v; free links, one thread a device, %s.",
				profile.Model, profile.Batch, b.spec.M, b.setup(1, 1).Partitioner, b.setup(1, 1).Cost, b.spec.Optimizer),
			fmt.Sprintf("Emulated devices: every task runs alone and is timed, a kind of task takes the median of its repeats over %d rounds; in brackets the 95%% interval of order statistics of the rounds' shares.", profile.Rounds),
			"Parts of the step, averaged over devices, by replays of the schedule, each with one thing more: even stages without links (bubble), the stages' true times (load imbalance), links (communication), the barrier before the update. They add up to the step; none is a remainder.",
			"Theory: the same replays for even stages, f:r:b = 1:1:2, and nothing else.",
			"Source of the paper's values: " + b.spec.Source + ". It has no part for the last two: its weight update is the remainder.",
		},
		Columns: []Column{{"part", true}},
	}
	var refs map[string]*measured
	if reference != nil {
		if refs, err = b.references(reference); err != nil {
			table.Notes = append(table.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		}
	}
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
	parts := partsTable("breakdown-steps", "Figure 4: the measured steps", Column{"run", true})
	for _, k := range b.spec.K {
		if k == b.spec.Paper.K {
			columns = append(columns, column{name: fmt.Sprintf("paper, K = %d", k), paper: &b.spec.Paper})
		}
		theory, err := theoryParts(b.setup(k, b.spec.M))
		if err != nil {
			return nil, err
		}
		columns = append(columns,
			column{name: fmt.Sprintf("theory, K = %d", k), parts: theory},
			column{name: fmt.Sprintf("measured, K = %d", k), parts: runs[breakdownRun(k)].parts},
			column{name: fmt.Sprintf("95%%, K = %d", k), rounds: runs[breakdownRun(k)].shares})
		if refs != nil {
			columns = append(columns, column{name: fmt.Sprintf("reference, K = %d", k), parts: refs[breakdownRun(k)].parts})
		}
	}
	for _, run := range rounds.runs {
		parts.Add(append([]string{run.name}, runs[run.name].cells(run.training.Setup)...)...)
	}
	bars := barPanel{stacked: true, y: "share of the step (%)"}
	for _, c := range columns {
		table.Columns = append(table.Columns, Column{Name: c.name})
		if drawn(c) {
			bars.names = append(bars.names, strings.Replace(c.name, ", ", "\n", 1))
		}
	}
	for _, part := range partNames {
		row := []string{part.name}
		series := barSeries{name: part.name}
		for _, c := range columns {
			text, share := "-", 0.0
			switch {
			case c.rounds != nil:
				var shares []float64
				for _, p := range c.rounds {
					shares = append(shares, part.of(&p)/p.Step)
				}
				text = bracketed(shares, func(x float64) string { return FormatShare(x, 1) })
				if lo, hi, ok := interval(shares, 0.95); ok {
					series.spread = append(series.spread, spread{len(series.values) - 1, 100 * lo, 100 * hi}) // of the bar before
				}
			case c.paper == nil:
				share = 100 * part.of(&c.parts) / c.parts.Step
				text = FormatShare(part.of(&c.parts), c.parts.Step)
			case part.paper != nil:
				share = part.paper(c.paper).Value
				text = part.paper(c.paper).Text + "%"
			}
			row = append(row, text)
			if drawn(c) {
				series.add(share)
			}
		}
		table.Add(row...)
		bars.series = append(bars.series, series)
	}
	table.Notes = append(table.Notes, rounds.notes(log, gpipe.Emulated)...)
	parts.Notes = fewRoundsNote(rounds.count)
	if refs != nil {
		table.Notes = append(table.Notes, referenceNote(reference))
	}
	report := &Report{Tables: []*Table{table, parts}}
	if report.Files, err = plotFiles("breakdown", b.spec.Title, []axes{&bars}); err != nil {
		return nil, err
	}
	picture, err := b.picture(profile, runs)
	if err != nil {
		return nil, err
	}
	steps, err := rounds.stepTimes(log)
	if err != nil {
		return nil, err
	}
	report.Files = append(report.Files, picture, File{"breakdown.bench.txt", benchFormat(log, steps)})
	return report, nil
}

func (b *breakdown) references(log *Log) (map[string]*measured, error) {
	profile, err := profileOf(b.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	return b.rounds(profile).all(log)
}

// picture draws a step of naive model parallelism above one of GPipe: the
// paper's Figure 2b and c, of a network that was run.
func (b *breakdown) picture(profile breakdownProfile, runs map[string]*measured) (File, error) {
	naive, err := runs[pictureNaive].times.Replay()
	if err != nil {
		return File{}, err
	}
	pipelined, err := runs[pictureGPipe].times.Replay()
	if err != nil {
		return File{}, err
	}
	var text strings.Builder
	err = timeline.WriteSVG(&text,
		timeline.Drawing{Caption: fmt.Sprintf("Naive model parallelism: %s, K = %d, M = 1", profile.Model.Name, b.spec.Picture.K), Timeline: naive},
		timeline.Drawing{Caption: fmt.Sprintf("GPipe: the same network and mini-batch, K = %d, M = %d", b.spec.Picture.K, b.spec.Picture.M), Timeline: pipelined},
	)
	return File{"timeline.svg", text.String()}, err
}
