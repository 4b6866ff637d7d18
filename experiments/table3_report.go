package experiments

import (
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline"
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
func (t *table3) over(log *Log, profile table3Profile, of func(linkRatios) timeline.Link) (map[string]*measured, error) {
	r := t.rounds(profile)
	i := 0
	for j, n := range t.spec.Networks {
		ratios, err := t.linksOf(log, n, profile.Models[j])
		if err != nil {
			return nil, err
		}
		out, _, err := handedOn(profile.Models[j])
		if err != nil {
			return nil, err
		}
		for range t.spec.cells() {
			r.runs[i].over = &crossing{of(ratios), out}
			i++
		}
	}
	return r.all(log)
}

func (t *table3) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(t.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	rounds := t.rounds(profile)
	var runs []map[string]*measured
	for _, l := range table3Links {
		over, err := t.over(log, profile, l.of)
		if err != nil {
			return nil, err
		}
		runs = append(runs, over)
	}
	base := t.spec.Base
	table := &Table{
		ID: t.ID(), Title: t.spec.Title,
		Caption: []string{
			fmt.Sprintf("M = %d, everything re-materialised, early; whole layers cut by %v over %v. Mini-batch %d throughout the measured part, %s, one thread a device. Each column is relative to its own K = %d.", base.M, t.partitioner, t.cost, profile.Batch, t.spec.Optimizer, base.K),
			emulatedCaption(profile.Rounds, "cell"),
			"Links: the same timed tasks, replayed over three links. Through PCI-E a transfer goes by way of the host's memory: two legs, each of which occupies its device. Bytes per FLOP: the link is as slow, beside a core of this machine, as PCI-E is beside a P100. To scale: as much faster as the smaller network hands on more bytes for each operation, so that transfers weigh what they weigh in the paper's network. Fast link: transfers take no time. Latencies, microseconds beside long tasks at the paper's scale, are left out of the measured part.",
			"Modelled: " + t.spec.standardCaption() + "; fast link: the same with links that take no time.",
			"Source of the paper's values: " + t.spec.Source + ". torchgpipe: " + t.spec.Torchgpipe + ".",
		},
		Columns: []Column{{"network", true}, {"K", false}, {"paper", false}, {"theory, even", false}, {"theory, cut", false}, {"modelled", false}, {"error", false}, {"modelled, fast link", false}},
	}
	for _, l := range table3Links {
		table.Columns = append(table.Columns, Column{Name: "measured, " + l.name}, Column{Name: "95%"})
	}
	table.Columns = append(table.Columns, Column{Name: "measured/paper, to scale"})
	var refs map[string]*measured
	if reference != nil {
		if refs, err = t.references(reference); err != nil {
			table.Notes = append(table.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		} else {
			table.Columns = append(table.Columns, Column{Name: "reference, to scale"})
		}
	}
	parts := partsTable(t.ID()+"-steps", "Table 3: where the measured steps' time goes", Column{"network", true}, Column{"link", true})
	var panels []axes
	for i, n := range t.spec.Networks {
		model := profile.Models[i]
		ratios, err := t.linksOf(log, n, model)
		if err != nil {
			return nil, err
		}
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %v. A core here reaches %.1f GFLOP/s, the P100's peak is %.1f TFLOP/s and its PCI-E %.0f GB/s a direction: the link has %.0f MB/s, and to scale, with %.1f times the traffic for each operation, %.0f MB/s.",
			n.Name, model, ratios.rate/1e9, ratios.peak/1e12, ratios.link.Bandwidth/1e9, ratios.strict().Bandwidth/1e6, ratios.traffic, ratios.scaled().Bandwidth/1e6))
		costs, err := flopsOf(model)
		if err != nil {
			return nil, err
		}
		bars := &barPanel{title: n.Name, y: fmt.Sprintf("throughput relative to K = %d", base.K), series: []barSeries{{name: "paper"}, {name: "modelled"}}}
		for _, l := range table3Links {
			bars.series = append(bars.series, barSeries{name: "measured, " + l.name})
		}
		for _, c := range t.spec.cells() {
			row, err := t.row(log, n, c, costs, runs, bars)
			if err != nil {
				return nil, err
			}
			if refs != nil {
				row = append(row, ratioOf(refs[table3Run(n, base)].rounds, refs[table3Run(n, c)].rounds).value())
			}
			table.Add(row...)
			for j, l := range table3Links {
				parts.Add(append([]string{n.Name, l.name}, runs[j][table3Run(n, c)].cells(t.setup(c))...)...)
			}
		}
		panels = append(panels, bars)
	}
	for _, n := range t.spec.Networks {
		e, err := t.spec.errors(log, n, t.spec.conventions(n)[0])
		if err != nil {
			return nil, err
		}
		table.Notes = append(table.Notes, n.Name+", modelled. "+t.spec.reachNote(n, e))
	}
	table.Notes = append(table.Notes, rounds.notes(log, gpipe.Emulated)...)
	parts.Notes = fewRoundsNote(rounds.count)
	if refs != nil {
		table.Notes = append(table.Notes, referenceNote(reference))
	}
	cells, conventions, err := t.spec.tables(log, t.ID()+"-modelled", "Table 3", []string{"Source of the paper's values: " + t.spec.Source + "."})
	if err != nil {
		return nil, err
	}
	report := &Report{Tables: slices.Concat([]*Table{table, parts}, cells, conventions)}
	if report.Files, err = plotFiles(t.ID(), t.spec.Title, panels); err != nil {
		return nil, err
	}
	steps, err := rounds.stepTimes(log)
	if err != nil {
		return nil, err
	}
	report.Files = append(report.Files, File{t.ID() + ".bench.txt", benchFormat(log, steps)})
	return report, nil
}

// row is a cell's, without the reference. It adds the cell's bars.
func (t *table3) row(log *Log, n *scaleNetwork, c cell, costs []float64, runs []map[string]*measured, bars *barPanel) ([]string, error) {
	base, standard := t.spec.Base, t.spec.conventions(n)[0]
	paper := n.paper(c).Value
	even, err := against(evenStep, t.setup(base), t.setup(c))
	if err != nil {
		return nil, err
	}
	cut, err := against(func(s Setup) (float64, error) { return cutStep(s, costs) }, t.setup(base), t.setup(c))
	if err != nil {
		return nil, err
	}
	modelled, err := t.spec.throughput(log, n, standard, c, false)
	if err != nil {
		return nil, err
	}
	free, err := t.spec.throughput(log, n, standard, c, true)
	if err != nil {
		return nil, err
	}
	off := "-"
	if c != base {
		off = signed(modelled/paper.Value - 1)
	}
	row := []string{
		n.Name, fmt.Sprint(c.K), paper.Text, fmt.Sprintf("%.2f", even), fmt.Sprintf("%.2f", cut),
		fmt.Sprintf("%.2f", modelled), off, fmt.Sprintf("%.2f", free),
	}
	bars.names = append(bars.names, fmt.Sprintf("K = %d", c.K))
	bars.series[0].add(paper.Value)
	bars.series[1].add(modelled)
	first := ratio{}
	for i, over := range runs {
		got := ratioOf(over[table3Run(n, base)].rounds, over[table3Run(n, c)].rounds)
		if i == 0 {
			first = got
		}
		interval := got.interval()
		if c == base {
			interval = "-"
		}
		row = append(row, got.value(), interval)
		bars.series[2+i].addRatio(got)
	}
	return append(row, fmt.Sprintf("%.2f", first.median/paper.Value)), nil
}

// references reduces a reference's runs over the first of the links.
func (t *table3) references(log *Log) (map[string]*measured, error) {
	profile, err := profileOf(t.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	return t.over(log, profile, table3Links[0].of)
}
