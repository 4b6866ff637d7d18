package figure3

import (
	"fmt"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/internal/stats"
)

func (f *Figure3) Report(log, reference *records.Log) (*suite.Report, error) {
	profile, err := suite.ProfileOf(f.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	timed := f.Rounds(profile)
	runs, err := timed.All(log)
	if err != nil {
		return nil, err
	}
	table := &suite.Table{
		ID: "figure3", Title: f.Spec.Title,
		Caption: []string{
			fmt.Sprintf("Throughput relative to naive-k: the network over k accelerators, one at a time, M = 1, nothing recomputed. Pipeline-k: GPipe over k accelerators, M = %d, everything recomputed, early; whole layers cut by %v over %v. Mini-batch %d throughout (the paper adjusted it to maximise throughput), free links, one thread a device, %s.",
				f.Spec.M, f.Spec.Networks[0].Scenarios[1].setup.Partitioner, f.Spec.Networks[0].Scenarios[1].setup.Cost, profile.Batch, f.Spec.Optimizer),
			rounds.EmulatedCaption(profile.Rounds, "scenario"),
			rounds.TheoryCaption,
			f.Spec.Modelled.caption(),
			"Work: what all F and B take together, relative to the baseline's. It is not 1 on processors whose caches small micro-batches fit better, and whose every micro-batch reads all weights.",
			"Source of the paper's values: " + f.Spec.Source + ". torchgpipe: " + f.Spec.Torchgpipe + ".",
		},
	}
	table.Texts("network", "scenario")
	table.Numbers("paper", "torchgpipe", "theory, even", "theory, cut")
	table.Numbers(modelledColumns...)
	table.Numbers("work", "closed form", "measured", "95%", "measured/paper")
	refs := rounds.References(table, reference, f.Spec.Profiles, func(log *records.Log, p figure3Profile) (map[string]*rounds.Measured, error) {
		return f.Rounds(p).All(log)
	}, "reference")
	parts := rounds.PartsTable("figure3-steps", "Figure 3: where the measured steps' time goes", "network", "scenario")
	for i := range f.Spec.Networks {
		n := &f.Spec.Networks[i]
		model := profile.Models[i]
		table.Caption = append(table.Caption, fmt.Sprintf("%s is measured as %v.", n.Name, model))
		costs, err := workload.FlopsOf(model)
		if err != nil {
			return nil, err
		}
		base := n.scenario(n.Base)
		baseRun := runs[figure3Run(n, base)]
		for j := range n.Scenarios {
			s := &n.Scenarios[j]
			m := runs[figure3Run(n, s)]
			theory, err := rounds.Theory(base.setup, s.setup, costs)
			if err != nil {
				return nil, err
			}
			got := stats.RatioOf(baseRun.Rounds, m.Rounds)
			modelled, err := f.Spec.Modelled.Cells(log, figure3Run(n, base), figure3Run(n, s))
			if err != nil {
				return nil, err
			}
			row := []any{n.Name, s.Name, s.Paper, s.Torchgpipe, theory, modelled,
				suite.Fixed(m.Work()/baseRun.Work(), 2), suite.Fixed(baseRun.Closed/m.Closed, 2), suite.Ratio(got, s == base), suite.Fixed(got.Median/s.Paper.Value, 2)}
			if refs != nil {
				row = append(row, suite.Fixed(stats.RatioOf(refs[figure3Run(n, base)].Rounds, refs[figure3Run(n, s)].Rounds).Median, 2))
			}
			table.Add(row...)
			parts.Add(n.Name, s.Name, m.Cells(s.setup))
		}
	}
	table.Notes = append(table.Notes, timed.Notes(log, gpipe.Emulated)...)
	parts.Notes = suite.FewRoundsNote(timed.Count)
	if refs != nil {
		table.Notes = append(table.Notes, suite.ReferenceNote(reference))
	}
	report := &suite.Report{Tables: []*suite.Table{table, parts}}
	bars := plot.TableBars{
		Panel: "network", Group: "scenario", Y: "throughput relative to naive",
		Bars: []string{"paper", "torchgpipe", "theory, cut", "modelled, memory filled", "measured"},
	}
	report.Files, err = timed.Files(log, "figure3", f.Spec.Title, bars.Panels(table))
	return report, err
}
