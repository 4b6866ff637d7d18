package table3

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/experiments/paperscale"
	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/stats"
)

// table3Links are the links of the measured part: names, and what they are.
var table3Links = []struct {
	name string
	of   func(linkRatios) timeline.Link
}{
	{"PCI-E, to scale", linkRatios.scaled},
	{"PCI-E, bytes per FLOP", linkRatios.strict},
	{"fast link", func(linkRatios) timeline.Link { return timeline.Link{} }},
}

// over reduces all runs as if over a link, by name.
func (t *Table3) over(log *records.Log, profile table3Profile, of func(linkRatios) timeline.Link) (map[string]*rounds.Measured, error) {
	r := t.rounds(profile)
	i := 0
	for j, n := range t.Spec.Networks {
		ratios, err := t.linksOf(log, n, profile.Models[j])
		if err != nil {
			return nil, err
		}
		out, _, err := rounds.HandedOn(profile.Models[j])
		if err != nil {
			return nil, err
		}
		for range t.Spec.Cells() {
			r.Runs[i].Over = &rounds.Crossing{Link: of(ratios), Out: out}
			i++
		}
	}
	return r.All(log)
}

func (t *Table3) Report(log, reference *records.Log) (*suite.Report, error) {
	profile, err := suite.ProfileOf(t.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	timed := t.rounds(profile)
	var runs []map[string]*rounds.Measured
	for _, l := range table3Links {
		over, err := t.over(log, profile, l.of)
		if err != nil {
			return nil, err
		}
		runs = append(runs, over)
	}
	base := t.Spec.Base
	table := &suite.Table{
		ID: t.ID(), Title: t.Spec.Title,
		Caption: []string{
			fmt.Sprintf("M = %d, everything re-materialised, early; whole layers cut by %v over %v. Mini-batch %d throughout the measured part, %s, one thread a device. Each column is relative to its own K = %d.", base.M, t.partitioner, t.cost, profile.Batch, t.Spec.Optimizer, base.K),
			rounds.EmulatedCaption(profile.Rounds, "cell"),
			"Links: the same timed tasks, replayed over three links. Through PCI-E a transfer goes by way of the host's memory: two legs, each of which occupies its device. Bytes per FLOP: the link is as slow, beside a core of this machine, as PCI-E is beside a P100. To scale: as much faster as the smaller network hands on more bytes for each operation, so that transfers weigh what they weigh in the paper's network. Fast link: transfers take no time. Latencies, microseconds beside long tasks at the paper's scale, are left out of the measured part.",
			"Modelled: " + t.Spec.StandardCaption() + "; fast link: the same with links that take no time.",
			"Source of the paper's values: " + t.Spec.Source + ". torchgpipe: " + t.Spec.Torchgpipe + ".",
		},
	}
	table.Texts("network")
	table.Numbers("K", "paper", "theory, even", "theory, cut", "modelled", "error", "modelled, fast link")
	for _, l := range table3Links {
		table.Numbers("measured, "+l.name, "95%, "+strings.TrimPrefix(l.name, "PCI-E, "))
	}
	table.Numbers("measured/paper, to scale")
	refs := rounds.References(table, reference, t.Spec.Profiles, func(log *records.Log, p table3Profile) (map[string]*rounds.Measured, error) {
		return t.over(log, p, table3Links[0].of)
	}, "reference, to scale")
	parts := rounds.PartsTable(t.ID()+"-steps", "Table 3: where the measured steps' time goes", "network", "link")
	var panels []plot.Axes
	for i, n := range t.Spec.Networks {
		model := profile.Models[i]
		ratios, err := t.linksOf(log, n, model)
		if err != nil {
			return nil, err
		}
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %v. A core here reaches %.1f GFLOP/s, the P100's peak is %.1f TFLOP/s and its PCI-E %.0f GB/s a direction: the link has %.0f MB/s, and to scale, with %.1f times the traffic for each operation, %.0f MB/s.",
			n.Name, model, ratios.rate/1e9, ratios.peak/1e12, ratios.link.Bandwidth/1e9, ratios.strict().Bandwidth/1e6, ratios.traffic, ratios.scaled().Bandwidth/1e6))
		costs, err := workload.FlopsOf(model)
		if err != nil {
			return nil, err
		}
		bars := &plot.BarPanel{Title: n.Name, Y: fmt.Sprintf("throughput relative to K = %d", base.K), Series: []plot.BarSeries{{Name: "paper"}, {Name: "modelled"}}}
		for _, l := range table3Links {
			bars.Series = append(bars.Series, plot.BarSeries{Name: "measured, " + l.name})
		}
		for _, c := range t.Spec.Cells() {
			row, err := t.row(log, n, c, costs, runs, bars)
			if err != nil {
				return nil, err
			}
			if refs != nil {
				row = append(row, suite.Fixed(stats.RatioOf(refs[table3Run(n, base)].Rounds, refs[table3Run(n, c)].Rounds).Median, 2))
			}
			table.Add(row...)
			for j, l := range table3Links {
				parts.Add(n.Name, l.name, runs[j][table3Run(n, c)].Cells(t.setup(c)))
			}
		}
		panels = append(panels, bars)
	}
	for _, n := range t.Spec.Networks {
		e, err := t.Spec.Errors(log, n, t.Spec.ConventionsOf(n)[0])
		if err != nil {
			return nil, err
		}
		table.Notes = append(table.Notes, n.Name+", modelled. "+t.Spec.ReachNote(n, e))
	}
	table.Notes = append(table.Notes, timed.Notes(log, gpipe.Emulated)...)
	parts.Notes = suite.FewRoundsNote(timed.Count)
	if refs != nil {
		table.Notes = append(table.Notes, suite.ReferenceNote(reference))
	}
	cells, conventions, err := t.Spec.Tables(log, t.ID()+"-modelled", "Table 3", []string{"Source of the paper's values: " + t.Spec.Source + "."})
	if err != nil {
		return nil, err
	}
	report := &suite.Report{Tables: slices.Concat([]*suite.Table{table, parts}, cells, conventions)}
	report.Files, err = timed.Files(log, t.ID(), t.Spec.Title, panels)
	return report, err
}

// row is a cell's, without the reference. It adds the cell's bars.
func (t *Table3) row(log *records.Log, n *paperscale.Network, c suite.Cell, costs []float64, runs []map[string]*rounds.Measured, bars *plot.BarPanel) ([]any, error) {
	base, standard := t.Spec.Base, t.Spec.ConventionsOf(n)[0]
	paper := n.Paper.Of(c).Value
	theory, err := rounds.Theory(t.setup(base), t.setup(c), costs)
	if err != nil {
		return nil, err
	}
	modelled, err := t.Spec.Throughput(log, n, standard, c, false)
	if err != nil {
		return nil, err
	}
	free, err := t.Spec.Throughput(log, n, standard, c, true)
	if err != nil {
		return nil, err
	}
	off := suite.Absent
	if c != base {
		off = suite.Signed(modelled/paper.Value - 1)
	}
	row := []any{n.Name, c.K, paper, theory, suite.Fixed(modelled, 2), off, suite.Fixed(free, 2)}
	bars.Names = append(bars.Names, fmt.Sprintf("K = %d", c.K))
	bars.Series[0].Add(paper.Value)
	bars.Series[1].Add(modelled)
	first := stats.Ratio{}
	for i, over := range runs {
		got := stats.RatioOf(over[table3Run(n, base)].Rounds, over[table3Run(n, c)].Rounds)
		if i == 0 {
			first = got
		}
		cells := suite.Ratio(got, c == base)
		row = append(row, cells)
		bars.Series[2+i].AddValue(cells[0])
	}
	return append(row, suite.Fixed(first.Median/paper.Value, 2)), nil
}
