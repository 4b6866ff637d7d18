package experiments

import (
	"fmt"
	"strings"

	"gpipebench/gpipe"
)

func (a *amoeba) Report(log, reference *Log) (*Report, error) {
	profile, err := profileOf(a.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	rounds := a.rounds(profile)
	runs, err := rounds.all(log)
	if err != nil {
		return nil, err
	}
	costs, err := flopsOf(profile.Model)
	if err != nil {
		return nil, err
	}
	paperCosts, err := flopsOf(a.spec.PaperModel)
	if err != nil {
		return nil, err
	}
	standard := a.setup(FLOPs, a.spec.Base)
	table := &Table{
		ID: a.ID(), Title: a.spec.Title,
		Caption: []string{
			fmt.Sprintf("The paper's 18 normal cells at reduced scale: %v, mini-batch %d throughout (the paper adjusted it to fit memory, torchgpipe for every cell).", profile.Model, profile.Batch),
			fmt.Sprintf("Conventions: schedule %v, checkpoint %v, recomputation %s, cuts at whole layers by %v, free links, one thread a device, %s. Every cell is cut twice: to balance FLOPs, and to balance what each layer takes by itself on this machine, measured beforehand. Each cut is relative to its own K = %d, M = %d.",
				standard.Schedule, standard.Checkpoint, earlyOrLate(standard.LateRecompute), standard.Partitioner, a.spec.Optimizer, a.spec.Base.K, a.spec.Base.M),
			emulatedCaption(profile.Rounds, "cell"),
			"Theory, even: the closed form for even stages, f:r:b = 1:1:2. Theory, cut: the schedule replayed for the stages as cut by FLOPs, FLOPs for times, f:r:b = 1:1:2, at the measured scale and at the paper's.",
			a.modelled.caption(),
			"Source of the paper's values: " + a.spec.Source + ". torchgpipe: " + a.spec.Torchgpipe + ".",
		},
		Columns: append([]Column{
			{"K", false}, {"M", false}, {"paper", false}, {"torchgpipe", false}, {"theory, even", false}, {"theory, cut", false}, {"theory, cut, paper's scale", false},
		}, besideColumns...),
	}
	for _, cost := range a.costs {
		table.Columns = append(table.Columns, Column{Name: fmt.Sprintf("measured, cut by %v", cost)}, Column{Name: fmt.Sprintf("95%%, %v", cost)}, Column{Name: fmt.Sprintf("measured/paper, %v", cost)})
	}
	var refs map[string]*measured
	if reference != nil {
		if refs, err = a.references(reference); err != nil {
			table.Notes = append(table.Notes, fmt.Sprintf("The reference is not shown: %v.", err))
		} else {
			for _, cost := range a.costs {
				table.Columns = append(table.Columns, Column{Name: fmt.Sprintf("reference, %v", cost)})
			}
		}
	}
	parts := partsTable(a.ID()+"-steps", "Table 2, AmoebaNet: where the measured steps' time goes", Column{"cut by", true})
	for _, c := range a.cells() {
		paper, setup := a.paper(c), a.setup(FLOPs, c)
		even, err := against(evenStep, standard, setup)
		if err != nil {
			return nil, err
		}
		cut, err := against(func(s Setup) (float64, error) { return cutStep(s, costs) }, standard, setup)
		if err != nil {
			return nil, err
		}
		full, err := against(func(s Setup) (float64, error) { return cutStep(s, paperCosts) }, standard, setup)
		if err != nil {
			return nil, err
		}
		modelled, err := a.modelled.cells(log, c)
		if err != nil {
			return nil, err
		}
		row := append([]string{
			fmt.Sprint(c.K), fmt.Sprint(c.M), paper.Value.Text, paper.Torchgpipe.Text,
			fmt.Sprintf("%.2f", even), fmt.Sprintf("%.2f", cut), fmt.Sprintf("%.2f", full),
		}, modelled...)
		for _, cost := range a.costs {
			run := runs[amoebaRun(cost, c)]
			got := ratioOf(runs[amoebaRun(cost, a.spec.Base)].rounds, run.rounds)
			interval := got.interval()
			if c == a.spec.Base {
				interval = "-"
			}
			row = append(row, got.value(), interval, fmt.Sprintf("%.2f", got.median/paper.Value.Value))
			parts.Add(append([]string{cost.String()}, run.cells(a.setup(cost, c))...)...)
		}
		if refs != nil {
			for _, cost := range a.costs {
				row = append(row, ratioOf(refs[amoebaRun(cost, a.spec.Base)].rounds, refs[amoebaRun(cost, c)].rounds).value())
			}
		}
		table.Add(row...)
	}
	table.Notes = append(table.Notes, a.imbalanceNote(runs))
	table.Notes = append(table.Notes, rounds.notes(log, gpipe.Emulated)...)
	parts.Notes = fewRoundsNote(rounds.count)
	if refs != nil {
		table.Notes = append(table.Notes, referenceNote(reference))
	}
	report := &Report{Tables: []*Table{table, parts}}
	bars := tableBars{
		panel: "M", group: "K", y: fmt.Sprintf("throughput relative to K = %d, M = %d", a.spec.Base.K, a.spec.Base.M),
		bars: []columnBars{{"paper", ""}, {"torchgpipe", ""}, {"theory, cut", ""}, {"modelled", ""}},
	}
	for _, cost := range a.costs {
		bars.bars = append(bars.bars, columnBars{fmt.Sprintf("measured, cut by %v", cost), fmt.Sprintf("95%%, %v", cost)})
	}
	if report.Files, err = plotFiles(a.ID(), a.spec.Title, bars.panels(table)); err != nil {
		return nil, err
	}
	steps, err := rounds.stepTimes(log)
	if err != nil {
		return nil, err
	}
	report.Files = append(report.Files, File{a.ID() + ".bench.txt", benchFormat(log, steps)})
	return report, nil
}

// imbalanceNote says what the cuts come to where there are the most
// micro-batches, and so the least bubble.
func (a *amoeba) imbalanceNote(runs map[string]*measured) string {
	m := a.spec.M[len(a.spec.M)-1]
	var each []string
	for _, cost := range a.costs {
		var balances, losses []string
		for _, k := range a.spec.K {
			run := runs[amoebaRun(cost, cell{k, m})]
			balances = append(balances, fmt.Sprintf("%.2f", run.balance()))
			losses = append(losses, FormatShare(run.parts.Imbalance, run.span))
		}
		each = append(each, fmt.Sprintf("cut by %v their mean is %s of the largest, and %s of the step is imbalance", cost, strings.Join(balances, " / "), strings.Join(losses, " / ")))
	}
	return fmt.Sprintf("Stages' measured times at M = %d, K = %s: %s.", m, joinWith(a.spec.K, " / "), strings.Join(each, "; "))
}

func (a *amoeba) references(log *Log) (map[string]*measured, error) {
	profile, err := profileOf(a.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	return a.rounds(profile).all(log)
}
