package experiments

import (
	"fmt"
	"slices"

	"gpipebench/gpipe"
)

func (f *figure3) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(f.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	rounds := f.rounds(profile)
	runs, err := rounds.all(log)
	if err != nil {
		return nil, err
	}
	table := &Table{
		ID: "figure3", Title: f.spec.Title,
		Caption: []string{
			fmt.Sprintf("Throughput relative to naive-k: the network over k accelerators, one at a time, M = 1, nothing recomputed. Pipeline-k: GPipe over k accelerators, M = %d, everything recomputed, early; whole layers cut by %v over %v. Mini-batch %d throughout (the paper adjusted it to maximise throughput), free links, one thread a device, %s.",
				f.spec.M, f.spec.Networks[0].Scenarios[1].setup.Partitioner, f.spec.Networks[0].Scenarios[1].setup.Cost, profile.Batch, f.spec.Optimizer),
			emulatedCaption(profile.Rounds, "scenario"),
			theoryCaption,
			f.spec.Modelled.caption(),
			"Work: what all F and B take together, relative to the baseline's. It is not 1 on processors whose caches small micro-batches fit better, and whose every micro-batch reads all weights.",
			"Source of the paper's values: " + f.spec.Source + ". torchgpipe: " + f.spec.Torchgpipe + ".",
		},
		Columns: slices.Concat([]Column{
			{"network", true}, {"scenario", true}, {"paper", false}, {"torchgpipe", false}, {"theory, even", false}, {"theory, cut", false},
		}, modelledColumns, []Column{{"work", false}, {"closed form", false}, {"measured", false}, {"95%", false}, {"measured/paper", false}}),
	}
	var refs map[string]*measured
	if reference != nil {
		if refs, err = f.references(reference); err != nil {
			table.Notes = append(table.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		} else {
			table.Columns = append(table.Columns, Column{Name: "reference"})
		}
	}
	parts := partsTable("figure3-steps", "Figure 3: where the measured steps' time goes", Column{"network", true}, Column{"scenario", true})
	for i := range f.spec.Networks {
		n := &f.spec.Networks[i]
		model := profile.Models[i]
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %v.", n.Name, model))
		costs, err := flopsOf(model)
		if err != nil {
			return nil, err
		}
		base := n.scenario(n.Base)
		baseRun := runs[figure3Run(n, base)]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			m := runs[figure3Run(n, s)]
			even, err := against(evenStep, base.setup, s.setup)
			if err != nil {
				return nil, err
			}
			cut, err := against(func(s Setup) (float64, error) { return cutStep(s, costs) }, base.setup, s.setup)
			if err != nil {
				return nil, err
			}
			got := ratioOf(baseRun.rounds, m.rounds)
			interval := got.interval()
			if s == base {
				interval = "-"
			}
			modelled, err := f.spec.Modelled.cells(log, figure3Run(n, base), figure3Run(n, s))
			if err != nil {
				return nil, err
			}
			row := slices.Concat([]string{n.Name, s.Name, s.Paper.Text, s.Torchgpipe.String(), fmt.Sprintf("%.2f", even), fmt.Sprintf("%.2f", cut)},
				modelled, []string{fmt.Sprintf("%.2f", m.work()/baseRun.work()), fmt.Sprintf("%.2f", baseRun.closed/m.closed), got.value(), interval, fmt.Sprintf("%.2f", got.median/s.Paper.Value)})
			if refs != nil {
				row = append(row, ratioOf(refs[figure3Run(n, base)].rounds, refs[figure3Run(n, s)].rounds).value())
			}
			table.Add(row...)
			parts.Add(append([]string{n.Name, s.Name}, m.cells(s.setup)...)...)
		}
	}
	table.Notes = append(table.Notes, rounds.notes(log, gpipe.Emulated)...)
	parts.Notes = fewRoundsNote(rounds.count)
	if refs != nil {
		table.Notes = append(table.Notes, referenceNote(reference))
	}
	report := &Report{Tables: []*Table{table, parts}}
	bars := tableBars{
		panel: "network", group: "scenario", y: "throughput relative to naive",
		bars: []columnBars{{"paper", ""}, {"torchgpipe", ""}, {"theory, cut", ""}, {"modelled, memory filled", ""}, {"measured", "95%"}},
	}
	if report.Files, err = plotFiles("figure3", f.spec.Title, bars.panels(table)); err != nil {
		return nil, err
	}
	steps, err := rounds.stepTimes(log)
	if err != nil {
		return nil, err
	}
	report.Files = append(report.Files, File{"figure3.bench.txt", benchFormat(log, steps)})
	return report, nil
}

func (f *figure3) references(log *Log) (map[string]*measured, error) {
	profile, err := profileOf(f.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	return f.rounds(profile).all(log)
}
