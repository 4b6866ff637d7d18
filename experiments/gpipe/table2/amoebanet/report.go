package amoebanet

import (
	"fmt"
	"strings"

	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
)

func (a *Amoeba) Report(log, reference *records.Log) (*suite.Report, error) {
	profile, err := suite.ProfileOf(a.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	timed := a.Rounds(profile)
	runs, err := timed.All(log)
	if err != nil {
		return nil, err
	}
	costs, err := workload.FlopsOf(profile.Model)
	if err != nil {
		return nil, err
	}
	paperCosts, err := workload.FlopsOf(a.Spec.PaperModel)
	if err != nil {
		return nil, err
	}
	standard := a.Setup(workload.FLOPs, a.Spec.Base)
	table := &suite.Table{
		ID: a.ID(), Title: a.Spec.Title,
		Caption: []string{
			fmt.Sprintf("The paper's 18 normal cells at reduced scale: %v, mini-batch %d throughout (the paper adjusted it to fit memory, torchgpipe for every cell).", profile.Model, profile.Batch),
			fmt.Sprintf("Conventions: schedule %v, checkpoint %v, recomputation %s, cuts at whole layers by %v, free links, one thread a device, %s. Every cell is cut twice: to balance FLOPs, and to balance what each layer takes by itself on this machine, measured beforehand. Each cut is relative to its own K = %d, M = %d.",
				standard.Schedule, standard.Checkpoint, suite.EarlyOrLate(standard.LateRecompute), standard.Partitioner, a.Spec.Optimizer, a.Spec.Base.K, a.Spec.Base.M),
			rounds.EmulatedCaption(profile.Rounds, "cell"),
			"Theory, even: the closed form for even stages, f:r:b = 1:1:2. Theory, cut: the schedule replayed for the stages as cut by FLOPs, FLOPs for times, f:r:b = 1:1:2, at the measured scale and at the paper's.",
			a.Modelled.Caption(),
			"Source of the paper's values: " + a.Spec.Source + ". torchgpipe: " + a.Spec.Torchgpipe + ".",
		},
	}
	table.Numbers("K", "M", "paper", "torchgpipe", "theory, even", "theory, cut", "theory, cut, paper's scale")
	table.Numbers(modelled.BesideColumns...)
	var names []string
	for _, cost := range a.costs {
		table.Numbers(fmt.Sprintf("measured, cut by %v", cost), fmt.Sprintf("95%%, %v", cost), fmt.Sprintf("measured/paper, %v", cost))
		names = append(names, fmt.Sprintf("reference, %v", cost))
	}
	refs := rounds.References(table, reference, a.Spec.Profiles, func(log *records.Log, p amoebaProfile) (map[string]*rounds.Measured, error) {
		return a.Rounds(p).All(log)
	}, names...)
	parts := rounds.PartsTable(a.ID()+"-steps", "Table 2, AmoebaNet: where the measured steps' time goes", "cut by")
	for _, c := range a.Spec.Cells() {
		paper, setup := a.Spec.Paper.Of(c), a.Setup(workload.FLOPs, c)
		theory, err := rounds.Theory(standard, setup, costs, paperCosts)
		if err != nil {
			return nil, err
		}
		modelled, err := a.Modelled.Cells(log, c)
		if err != nil {
			return nil, err
		}
		row := []any{c.K, c.M, paper.Value, paper.Torchgpipe, theory, modelled}
		for _, cost := range a.costs {
			run := runs[amoebaRun(cost, c)]
			got := stats.RatioOf(runs[amoebaRun(cost, a.Spec.Base)].Rounds, run.Rounds)
			row = append(row, suite.Ratio(got, c == a.Spec.Base), suite.Fixed(got.Median/paper.Value.Value, 2))
			parts.Add(cost, run.Cells(a.Setup(cost, c)))
		}
		if refs != nil {
			for _, cost := range a.costs {
				row = append(row, suite.Fixed(stats.RatioOf(refs[amoebaRun(cost, a.Spec.Base)].Rounds, refs[amoebaRun(cost, c)].Rounds).Median, 2))
			}
		}
		table.Add(row...)
	}
	table.Notes = append(table.Notes, a.imbalanceNote(runs))
	table.Notes = append(table.Notes, timed.Notes(log, gpipe.Emulated)...)
	parts.Notes = suite.FewRoundsNote(timed.Count)
	if refs != nil {
		table.Notes = append(table.Notes, suite.ReferenceNote(reference))
	}
	report := &suite.Report{Tables: []*suite.Table{table, parts}}
	bars := plot.TableBars{
		Panel: "M", Group: "K", Y: fmt.Sprintf("throughput relative to K = %d, M = %d", a.Spec.Base.K, a.Spec.Base.M),
		Bars: []string{"paper", "torchgpipe", "theory, cut", "modelled"},
	}
	for _, cost := range a.costs {
		bars.Bars = append(bars.Bars, fmt.Sprintf("measured, cut by %v", cost))
	}
	report.Files, err = timed.Files(log, a.ID(), a.Spec.Title, bars.Panels(table))
	return report, err
}

// imbalanceNote says what the cuts come to where there are the most
// micro-batches, and so the least bubble.
func (a *Amoeba) imbalanceNote(runs map[string]*rounds.Measured) string {
	m := a.Spec.M[len(a.Spec.M)-1]
	var each []string
	for _, cost := range a.costs {
		var balances, losses []string
		for _, k := range a.Spec.K {
			run := runs[amoebaRun(cost, suite.Cell{K: k, M: m})]
			balances = append(balances, fmt.Sprintf("%.2f", run.Balance()))
			losses = append(losses, units.FormatShare(run.Parts.Imbalance, run.Span))
		}
		each = append(each, fmt.Sprintf("cut by %v their mean is %s of the largest, and %s of the step is imbalance", cost, strings.Join(balances, " / "), strings.Join(losses, " / ")))
	}
	return fmt.Sprintf("Stages' measured times at M = %d, K = %s: %s.", m, suite.JoinWith(a.Spec.K, " / "), strings.Join(each, "; "))
}
